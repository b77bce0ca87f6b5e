//! Draws random cases: a small tree of the old image, its locally changed form, and its form in the new image.

use std::collections::BTreeMap;

use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};

use crate::etc_merge::tree::{Drawn, Kind, Plant};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const TEXTS: [&str; 4] = ["", "one\n", "two\n", "three\n"];
const MODES: [u32; 4] = [0o644, 0o600, 0o755, 0o400];
const DIRECTORY_MODES: [u32; 4] = [0o755, 0o700, 0o2775, 0o1777];
const OWNERS: [(u32, u32); 3] = [(0, 0), (0, 10), (1000, 1000)];
const DEPTH: usize = 3;

/// One path in the three trees that a merge starts from.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) base: Option<Plant>,
    pub(crate) local: Option<Plant>,
    pub(crate) new: Option<Plant>,
}

/// An endless source of cases.
pub(crate) struct Draw {
    rng: TestRng,
    drawn: usize,
}

impl Draw {
    /// Each seed draws the same cases again.
    pub(crate) fn from_seed(seed: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        Self { rng: TestRng::from_seed(RngAlgorithm::ChaCha, &bytes), drawn: 0 }
    }

    pub(crate) fn case(&mut self) -> Case {
        self.drawn += 1;
        let base = (!self.one_in(12)).then(|| self.plant(0, false));
        let local = self.vary(base.as_ref(), 0, true);
        let mut new = self.vary(base.as_ref(), 0, false);
        if let Some(Plant { kind: Kind::Directory(entries), .. }) = &mut new {
            self.link(entries);
        }
        Case { name: format!("case-{:05}", self.drawn), base, local, new }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.rng.next_u32() as usize % bound
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    /// A new node. Special files occur locally only, as no image contains them.
    fn plant(&mut self, depth: usize, special: bool) -> Plant {
        let kind = match self.below(if special { 12 } else { 10 }) {
            // The top of a case is usually a directory.
            _ if depth == 0 && !self.one_in(8) => Kind::Directory(self.entries(1, special)),
            0..=3 => Kind::File(self.of(&TEXTS)),
            4 | 5 => Kind::Symlink(self.of(&["nowhere", "a", "elsewhere"]).to_owned()),
            6..=9 if depth < DEPTH => Kind::Directory(self.entries(depth + 1, special)),
            6..=9 => Kind::Directory(Drawn::new()),
            10 => Kind::Fifo,
            _ => Kind::Socket,
        };
        let mut plant = Plant { mode: 0o777, owner: (0, 0), xattrs: BTreeMap::new(), kind };
        self.attributes(&mut plant);
        plant
    }

    fn entries(&mut self, depth: usize, special: bool) -> Drawn {
        let mut entries = Drawn::new();
        for name in NAMES {
            if self.one_in(2) {
                entries.insert(name.to_owned(), self.plant(depth, special));
            }
        }
        entries
    }

    fn attributes(&mut self, plant: &mut Plant) {
        plant.mode = match plant.kind {
            Kind::Symlink(_) => 0o777,
            Kind::Directory(_) => self.of(&DIRECTORY_MODES),
            _ => self.of(&MODES),
        };
        plant.owner = self.of(&OWNERS);
        // Nothing else can have attributes of this kind.
        if matches!(plant.kind, Kind::File(_) | Kind::Directory(_)) {
            plant.xattrs.clear();
            for name in ["user.one", "user.two"] {
                if self.one_in(4) {
                    plant.xattrs.insert(name, self.of(&["1", "2"]));
                }
            }
        }
    }

    /// The same node with random changes.
    fn vary(&mut self, plant: Option<&Plant>, depth: usize, special: bool) -> Option<Plant> {
        let Some(plant) = plant else {
            let comes = self.one_in(if depth == 0 { 2 } else { 6 });
            return comes.then(|| self.plant(depth, special));
        };
        let mut plant = plant.clone();
        match self.below(16) {
            0 => return None,
            1 => return Some(self.plant(depth, special)),
            2 | 3 => self.attributes(&mut plant),
            4 if !plant.xattrs.is_empty() => plant.xattrs.clear(),
            5 | 6 => match &mut plant.kind {
                Kind::File(text) => *text = self.of(&TEXTS),
                Kind::Symlink(target) => self.of(&["nowhere", "b"]).clone_into(target),
                _ => {}
            },
            _ => {}
        }
        if let Kind::Directory(entries) = &mut plant.kind {
            // One directory in three stays unchanged.
            if depth == 0 || !self.one_in(3) {
                for name in NAMES {
                    let varied = self.vary(entries.get(name), depth + 1, special);
                    match varied {
                        Some(plant) => drop(entries.insert(name.to_owned(), plant)),
                        None => drop(entries.remove(name)),
                    }
                }
            }
        }
        Some(plant)
    }

    /// Replaces some of the new image's directories by a link, to the moved directory, to nothing or to itself.
    /// No two links share a target, and targets are not changed locally: otherwise the result would depend on the
    /// order in which the file system lists names.
    fn link(&mut self, entries: &mut Drawn) {
        for name in NAMES {
            let Some(Plant { kind: Kind::Directory(inside), .. }) = entries.get_mut(name) else { continue };
            self.link(inside);
            if !self.one_in(10) {
                continue;
            }
            let target = match self.below(6) {
                0 => "nowhere".to_owned(),
                1 => name.to_owned(),
                2 => "../x/../nowhere".to_owned(),
                _ => format!("to-{name}"),
            };
            if target.starts_with("to-") {
                let moved = entries[name].clone();
                entries.insert(target.clone(), moved);
            }
            let link = Plant {
                mode: 0o777,
                owner: self.of(&OWNERS),
                xattrs: BTreeMap::new(),
                kind: Kind::Symlink(target),
            };
            entries.insert(name.to_owned(), link);
        }
    }
}
