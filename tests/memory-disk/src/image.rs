//! File system as plain values: inodes by number, and the single edits that change them. Each act of the port
//! is one or more edits, and the power can fail between any two.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use flameholder::core::values::names::ManagedPath;
use flameholder::core::values::tree::FileAttributes;

/// Inode number.
pub type Number = usize;

/// Number of the root directory.
pub const TOP: Number = 0;

/// Directory and a name in it.
pub type Place = (Number, Arc<str>);

/// Content of an inode.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Body {
    File(Arc<[u8]>),
    Symlink(Arc<str>),
    Directory(BTreeMap<Arc<str>, Number>),
}

/// File, link or directory without its names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Inode {
    pub body: Body,
    pub attributes: Rights,
    pub label: Option<Arc<[u8]>>,
    /// File system of the inode.
    pub volume: usize,
    /// Number of names.
    pub names: u32,
}

/// Mode, user and group as a hashable value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rights {
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
}

impl From<FileAttributes> for Rights {
    fn from(FileAttributes { mode, uid, gid }: FileAttributes) -> Self {
        Self { mode, uid, gid }
    }
}

impl From<Rights> for FileAttributes {
    fn from(Rights { mode, uid, gid }: Rights) -> Self {
        Self { mode, uid, gid }
    }
}

/// Indivisible change of a file system.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Edit {
    /// Give an inode a name; the inode is new if `fresh` has its content.
    Link { place: Place, number: Number, fresh: Option<Inode> },
    /// Remove a name, and its inode with the last one.
    Unlink { place: Place, number: Number },
    /// Move an inode from one name to another that is free.
    Move { from: Place, to: Place, number: Number },
    /// Exchange the names of two inodes.
    Swap { one: Place, other: Place, numbers: (Number, Number) },
    /// Append bytes to a file.
    Extend { number: Number, bytes: Arc<[u8]> },
    /// Change the owner of an inode.
    Own { number: Number, owner: (u32, u32) },
    /// Change the mode of an inode.
    Mode { number: Number, mode: u32 },
    /// Change the label of an inode.
    Label { number: Number, label: Arc<[u8]> },
}

impl Edit {
    /// Directories whose names the edit changes.
    pub fn directories(&self) -> Vec<Number> {
        match self {
            Self::Link { place, .. } | Self::Unlink { place, .. } => vec![place.0],
            Self::Move { from, to, .. } => vec![from.0, to.0],
            Self::Swap { one, other, .. } => vec![one.0, other.0],
            _ => Vec::new(),
        }
    }

    /// Names that the edit starts from or leads to.
    pub fn places(&self) -> Vec<&Place> {
        match self {
            Self::Link { place, .. } | Self::Unlink { place, .. } => vec![place],
            Self::Move { from, to, .. } => vec![from, to],
            Self::Swap { one, other, .. } => vec![one, other],
            _ => Vec::new(),
        }
    }

    /// Inode whose content or attributes the edit changes.
    pub fn inode(&self) -> Option<Number> {
        match self {
            Self::Extend { number, .. }
            | Self::Own { number, .. }
            | Self::Mode { number, .. }
            | Self::Label { number, .. } => Some(*number),
            _ => None,
        }
    }
}

#[derive(Debug, Clone)]
struct Held {
    inode: Arc<Inode>,
    hash: u128,
}

/// Disk as a value. A clone shares every inode.
#[derive(Debug, Clone)]
pub struct Image {
    inodes: Vec<Option<Held>>,
    /// Sum of the inodes' hashes, so that the cost of an edit does not depend on the size of the disk.
    hash: u128,
    /// Numbers that are free but not reused.
    spared: Option<BTreeSet<Number>>,
    /// Inodes that have no name.
    nameless: BTreeSet<Number>,
    /// Mount points of other file systems.
    pub mounts: Arc<[ManagedPath]>,
}

impl Image {
    /// Empty root directory.
    pub fn new(attributes: Rights, mounts: &[ManagedPath]) -> Self {
        let mut image = Self::without_inodes(mounts.into());
        let body = Body::Directory(BTreeMap::new());
        image.set(TOP, Some(Inode { body, attributes, label: None, volume: 0, names: 1 }));
        image
    }

    fn without_inodes(mounts: Arc<[ManagedPath]>) -> Self {
        Self { inodes: Vec::new(), hash: 0, spared: None, nameless: BTreeSet::new(), mounts }
    }

    /// Hash of names, contents, modes, owners and labels; equal images have equal hashes. Inode numbers count
    /// too, because a journal identifies new inodes by them; the lowest free number is used first, so that
    /// runs with the same edits end with the same hash.
    pub fn hash(&self) -> u128 {
        self.hash
    }

    pub fn get(&self, number: Number) -> Option<&Inode> {
        self.inodes.get(number)?.as_ref().map(|held| &*held.inode)
    }

    /// Inode of this number. Panics if the number is free.
    pub fn inode(&self, number: Number) -> &Inode {
        self.get(number).unwrap_or_else(|| panic!("inode {number} is not in use"))
    }

    /// Names in a directory; `None` if the inode is no directory.
    pub fn names(&self, number: Number) -> Option<&BTreeMap<Arc<str>, Number>> {
        match &self.get(number)?.body {
            Body::Directory(names) => Some(names),
            _ => None,
        }
    }

    pub fn entry(&self, directory: Number, name: &str) -> Option<Number> {
        self.names(directory)?.get(name).copied()
    }

    /// Lowest number that is free and not spared.
    pub fn unused(&self) -> Number {
        let is_spared = |number: &Number| self.spared.as_ref().is_some_and(|spared| spared.contains(number));
        let is_free = |number: &Number| self.get(*number).is_none() && !is_spared(number);
        (0..self.inodes.len()).find(is_free).unwrap_or(self.inodes.len())
    }

    /// Keep numbers that become free from now on from being reused: a pending edit may bring their inode
    /// back.
    pub fn spare(&mut self) {
        self.spared.get_or_insert_default();
    }

    fn set(&mut self, number: Number, inode: Option<Inode>) {
        if self.inodes.len() <= number {
            self.inodes.resize(number + 1, None);
        }
        if let (None, Some(spared)) = (&inode, &mut self.spared) {
            spared.insert(number);
        }
        if inode.as_ref().is_some_and(|inode| inode.names == 0) {
            self.nameless.insert(number);
        } else {
            self.nameless.remove(&number);
        }
        let held = inode.map(|inode| Held { hash: wide_hash(&(number, &inode)), inode: Arc::new(inode) });
        let new = held.as_ref().map_or(0, |held| held.hash);
        let old = std::mem::replace(&mut self.inodes[number], held).map_or(0, |held| held.hash);
        self.hash = self.hash.wrapping_sub(old).wrapping_add(new);
    }

    fn alter(&mut self, number: Number, change: impl FnOnce(&mut Inode)) {
        let mut inode = self.inode(number).clone();
        change(&mut inode);
        self.set(number, Some(inode));
    }

    fn rename_in(&mut self, directory: Number, name: &Arc<str>, to: Option<Number>) {
        self.alter(directory, |inode| {
            let Body::Directory(names) = &mut inode.body else { panic!("{directory} is no directory") };
            match to {
                Some(number) => names.insert(name.clone(), number),
                None => names.remove(name),
            };
        });
    }

    /// True if the edit's precondition is met; an edit without it does not happen.
    pub fn allows(&self, edit: &Edit) -> bool {
        let stands = |(directory, name): &Place| self.entry(*directory, name);
        let is_free = |place: &Place| self.names(place.0).is_some() && stands(place).is_none();
        match edit {
            Edit::Link { place, number, fresh } => {
                is_free(place) && (fresh.is_some() || self.get(*number).is_some())
            }
            Edit::Unlink { place, number } => {
                stands(place) == Some(*number) && self.names(*number).is_none_or(BTreeMap::is_empty)
            }
            Edit::Move { from, to, number } => stands(from) == Some(*number) && is_free(to),
            Edit::Swap { one, other, numbers } => {
                (stands(one), stands(other)) == (Some(numbers.0), Some(numbers.1))
            }
            Edit::Extend { number, .. }
            | Edit::Own { number, .. }
            | Edit::Mode { number, .. }
            | Edit::Label { number, .. } => self.get(*number).is_some(),
        }
    }

    /// Apply an edit that [`Image::allows`].
    pub fn apply(&mut self, edit: &Edit) {
        match edit {
            Edit::Link { place, number, fresh } => {
                match (self.get(*number), fresh) {
                    (None, Some(fresh)) => self.set(*number, Some(Inode { names: 1, ..fresh.clone() })),
                    _ => self.alter(*number, |inode| inode.names += 1),
                }
                self.rename_in(place.0, &place.1, Some(*number));
            }
            Edit::Unlink { place, number } => {
                self.rename_in(place.0, &place.1, None);
                if self.inode(*number).names == 1 {
                    self.set(*number, None);
                } else {
                    self.alter(*number, |inode| inode.names -= 1);
                }
            }
            Edit::Move { from, to, number } => {
                self.rename_in(from.0, &from.1, None);
                self.rename_in(to.0, &to.1, Some(*number));
            }
            Edit::Swap { one, other, numbers } => {
                self.rename_in(one.0, &one.1, Some(numbers.1));
                self.rename_in(other.0, &other.1, Some(numbers.0));
            }
            Edit::Extend { number, bytes } => self.alter(*number, |inode| {
                let Body::File(contents) = &mut inode.body else { panic!("{number} is no file") };
                *contents = [&**contents, &**bytes].concat().into();
            }),
            Edit::Own { number, owner: (uid, gid) } => {
                self.alter(*number, |inode| (inode.attributes.uid, inode.attributes.gid) = (*uid, *gid));
            }
            Edit::Mode { number, mode } => self.alter(*number, |inode| inode.attributes.mode = *mode),
            Edit::Label { number, label } => self.alter(*number, |inode| inode.label = Some(label.clone())),
        }
    }

    /// Add an inode that has a content and no name yet.
    pub fn adopt(&mut self, number: Number, inode: Inode) {
        self.set(number, Some(Inode { names: 0, ..inode }));
    }

    /// Copy with other inode numbers, as a copy of the whole tree has them. Only the root keeps its number.
    pub fn copied(&self) -> Self {
        let used: Vec<Number> = (1..self.inodes.len()).filter(|number| self.get(*number).is_some()).collect();
        let following = used.iter().cycle().skip(1);
        let renumbered: BTreeMap<Number, Number> =
            used.iter().copied().zip(following.copied()).chain([(TOP, TOP)]).collect();
        let mut copy = Self::without_inodes(self.mounts.clone());
        for (number, new) in &renumbered {
            let mut inode = self.inode(*number).clone();
            if let Body::Directory(names) = &mut inode.body {
                for number in names.values_mut() {
                    *number = renumbered[number];
                }
            }
            copy.set(*new, Some(inode));
        }
        copy
    }

    /// Free inodes without a name, as the file system check after a crash does, and spare no number.
    pub fn reap(&mut self) {
        self.spared = None;
        while let Some(number) = self.nameless.first().copied() {
            let names = self.names(number).cloned().unwrap_or_default();
            self.set(number, None);
            for below in names.values() {
                self.alter(*below, |inode| inode.names -= 1);
            }
        }
        while self.inodes.last().is_some_and(Option::is_none) {
            self.inodes.pop();
        }
    }
}

/// Hash of `value` that is wide enough to stand for it among millions.
pub fn wide_hash(value: &impl Hash) -> u128 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    let half = hasher.finish();
    // The state of the hash function is wide enough for a second half.
    half.hash(&mut hasher);
    u128::from(half) << 64 | u128::from(hasher.finish())
}
