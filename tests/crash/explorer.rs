//! Every state that a crash can leave, and what recovery makes of each, crashes of recovery included.
//!
//! A run is carried out once. A process that is killed changes nothing any more, so what it would
//! have left is the disk as it was at that moment, and each such disk is looked at in passing. From
//! each one that is new, recovery is run in the same way, until none is new.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeSet, HashMap, HashSet},
};

use flameholder::host::HostDisk;
use flameholder::host::systemd::service_port::{NoServices, ServiceControl};
use flameholder::transaction::engine::apply::ApplyError;
use flameholder::transaction::engine::recover::RecoveryOutcome;

use crate::{
    bent::{Bend, Bent},
    case::{self, Case},
    disk::{
        Watch,
        effect::Screened,
        image::{Edit, Image, Number},
        reader::Reader,
        sight,
    },
};

/// Which tree a crash state must lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Promise {
    Old,
    New,
    /// Nobody was told yet.
    Either,
}

/// What is wrong, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Wrong {
    /// The tree at some moment, to one who reads it then.
    Read,
    /// A recovered tree is neither the old nor the new.
    Mixed,
    /// A recovered tree is the other one than was promised.
    Broken,
    /// Recovery refuses.
    Refused,
    /// Recovery of what is recovered does something.
    Restless,
    /// A run ends otherwise than it should.
    Ended,
}

/// How much was tried.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    /// Edits of the run itself.
    pub edits: usize,
    /// Moments at which something was stopped, those of recovery included.
    pub points: usize,
    /// States, no two alike.
    pub states: usize,
}

/// The search.
pub struct Explorer<'a> {
    pub case: &'a Case,
    reader: Reader,
    /// How the engine is to err.
    pub bend: Bend,
    seen: RefCell<HashSet<(u128, Promise)>>,
    pending: RefCell<Vec<(Image, Promise)>>,
    judged: RefCell<HashMap<u128, Option<Promise>>>,
    /// States that recovery ended with.
    ends: RefCell<HashSet<u128>>,
    complaints: RefCell<BTreeSet<(Wrong, String)>>,
    tally: Cell<Tally>,
}

impl<'a> Explorer<'a> {
    pub fn new(case: &'a Case, bend: Bend) -> Self {
        Self {
            case,
            reader: Reader::new(case),
            bend,
            seen: RefCell::default(),
            pending: RefCell::default(),
            judged: RefCell::default(),
            ends: RefCell::default(),
            complaints: RefCell::default(),
            tally: Cell::default(),
        }
    }

    /// Carries the change out, and notes every state that it passes through.
    pub fn run(&self) {
        let watch = Passing { explorer: self, promise: Cell::new(Promise::Old), commits: true, judges: true };
        let (result, last) = case::on(&self.case.image, &watch, |disk| self.apply(disk, &NoServices));
        let edits = self.tally.get().points;
        self.tally.set(Tally { edits, ..self.tally.get() });
        if let Err(error) = result {
            self.complain(Wrong::Ended, &case::said(&error));
        }
        self.expect(&last, Promise::New, "the end of the run");
        self.reach(&last, Promise::New, true);
    }

    /// Carries the change out with the engine at hand.
    pub fn apply(&self, disk: &dyn HostDisk, services: &dyn ServiceControl) -> Result<(), ApplyError> {
        let screen = Bent::new(self.bend, false);
        self.case.apply(&Screened { disk, screen: &screen }, services)
    }

    /// Recovers from every state that was noted, and from those that recovery passes through.
    pub fn settle(&self) {
        while let Some((image, promise)) = self.next() {
            let promise = match promise {
                // What it leads to once it leads to however often it is interrupted.
                Promise::Either => {
                    let (_, last) = self.recovered(&image, &crate::disk::Nobody);
                    let Some(promise) = self.outcome(&last) else {
                        self.expect(&last, Promise::Either, "recovery");
                        continue;
                    };
                    promise
                }
                promise => promise,
            };
            let watch = Passing { explorer: self, promise: Cell::new(promise), commits: false, judges: true };
            let (result, last) = self.recovered(&image, &watch);
            match result {
                Ok(_) => self.expect(&last, promise, "recovery"),
                Err(error) => self.complain(Wrong::Refused, &error),
            }
            if self.ends.borrow_mut().insert(last.hash()) {
                self.ensure_at_rest(&last);
            }
        }
    }

    /// Complains where there is still something to settle.
    fn ensure_at_rest(&self, image: &Image) {
        let (again, after) = self.recovered(image, &crate::disk::Nobody);
        if after.hash() != image.hash() || !matches!(again, Ok(RecoveryOutcome::Nothing)) {
            self.complain(Wrong::Restless, &format!("settled again: {again:?}"));
        }
    }

    /// Notes a state. Whoever is promised nothing about it reads nothing either.
    pub fn reach(&self, image: &Image, promise: Promise, is_read: bool) {
        let mut tally = self.tally.get();
        tally.points += 1;
        if self.seen.borrow_mut().insert((image.hash(), promise)) {
            tally.states += 1;
            if is_read {
                self.reader.complaints(image).iter().for_each(|wrong| self.complain(Wrong::Read, wrong));
            }
            self.pending.borrow_mut().push((image.clone(), promise));
        }
        self.tally.set(tally);
    }

    /// A state that was noted and not yet recovered from.
    pub fn next(&self) -> Option<(Image, Promise)> {
        self.pending.borrow_mut().pop()
    }

    /// Whether such a state was noted.
    pub fn knows(&self, image: &Image, promise: Promise) -> bool {
        self.seen.borrow().contains(&(image.hash(), promise))
    }

    fn recovered(&self, image: &Image, watch: &dyn Watch) -> (Result<RecoveryOutcome, String>, Image) {
        let screen = Bent::new(self.bend, true);
        case::on(image, watch, |disk| case::recover(&Screened { disk, screen: &screen }, &NoServices))
    }

    /// Which of the two trees it is.
    pub fn outcome(&self, image: &Image) -> Option<Promise> {
        *self.judged.borrow_mut().entry(image.hash()).or_insert_with(|| {
            let is = sight::see(image);
            let same = |side: &sight::Sight| sight::differences(&is, side).is_empty();
            let sides = [(&self.case.old, Promise::Old), (&self.case.new, Promise::New)];
            sides.into_iter().find(|(side, _)| same(side)).map(|(_, promise)| promise)
        })
    }

    /// Complains unless `image` is the tree that was promised, wholly and with nothing beside it.
    pub fn expect(&self, image: &Image, promise: Promise, after: &str) {
        match self.outcome(image) {
            Some(is) if promise == Promise::Either || is == promise => {}
            Some(is) => self.complain(Wrong::Broken, &format!("after {after} it is {is:?}, not {promise:?}")),
            None => {
                let side = if promise == Promise::New { &self.case.new } else { &self.case.old };
                let wrong = sight::differences(&sight::see(image), side);
                let shown = wrong.iter().take(5).cloned().collect::<Vec<_>>().join("; ");
                self.complain(Wrong::Mixed, &format!("after {after}, promised {promise:?}: {shown}"));
            }
        }
    }

    pub fn complain(&self, wrong: Wrong, what: &str) {
        self.complaints.borrow_mut().insert((wrong, format!("{}: {what}", self.case.name)));
    }

    /// The complaints, each once.
    pub fn complaints(&self) -> BTreeSet<(Wrong, String)> {
        self.complaints.borrow().clone()
    }

    pub fn tally(&self) -> Tally {
        self.tally.get()
    }
}

/// Stops at every edit, and within those that write.
pub struct Passing<'a> {
    pub explorer: &'a Explorer<'a>,
    pub promise: Cell<Promise>,
    /// Whether the journal's word that the change holds is a promise.
    pub commits: bool,
    pub judges: bool,
}

impl Watch for Passing<'_> {
    fn edit(&self, before: &Image, edit: &Edit) {
        self.explorer.reach(before, self.promise.get(), self.judges);
        if let Edit::Extend { number, bytes } = edit {
            for cut in [bytes.len() / 2, bytes.len() - 1] {
                let mut torn = before.clone();
                torn.apply(&Edit::Extend { number: *number, bytes: bytes[..cut].into() });
                self.explorer.reach(&torn, self.promise.get(), self.judges);
            }
        }
        if self.commits && is_commit(edit) {
            self.promise.set(Promise::New);
        }
    }

    fn flush(&self, _: &Image, _: Number) {}
}

/// Whether the edit adds the journal's line that the change holds.
pub fn is_commit(edit: &Edit) -> bool {
    const COMMITTED: &[u8] = b"\"reached\":\"committed\"";
    let says = |bytes: &[u8]| bytes.windows(COMMITTED.len()).any(|window| window == COMMITTED);
    matches!(edit, Edit::Extend { bytes, .. } if bytes.len() < 100 && says(bytes))
}
