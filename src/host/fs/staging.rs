//! Where content waits before it is renamed into place: one private directory per mount, outside
//! the directories that others watch.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use crate::core::config::decode::STAGING_NAME;
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::{FileAttributes, FileKind};
use crate::host::fs::disk::HostDisk;
use crate::host::fs::error::HostError;

/// Directories that hold the staging directory of the mount that they lie on, the first of them
/// that does. A mount with neither has it at its top.
const TOPS: [&str; 2] = ["/etc", "/var"];

/// Hands out unused names on the mount of a target.
pub struct StagingArea<'a> {
    disk: &'a dyn HostDisk,
    /// Staging directory by mount.
    directories: RefCell<BTreeMap<u64, ManagedPath>>,
    /// The same by the directory of a target.
    known: RefCell<BTreeMap<ManagedPath, ManagedPath>>,
    next: Cell<u32>,
}

impl std::fmt::Debug for StagingArea<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Staging").field("directories", &self.directories).finish_non_exhaustive()
    }
}

impl<'a> StagingArea<'a> {
    /// Staging on `disk`, which holds none yet.
    #[must_use]
    pub fn new(disk: &'a dyn HostDisk) -> Self {
        Self { disk, directories: RefCell::default(), known: RefCell::default(), next: Cell::new(0) }
    }

    /// An unused path from which a rename to `target` needs no copy. The directory of `target`,
    /// or the nearest one above it that exists, tells the mount.
    pub fn slot(&self, target: &ManagedPath) -> Result<ManagedPath, HostError> {
        let directory = match target.parent() {
            Some(parent) => self.beside(target, parent)?,
            None => self.directory(target)?,
        };
        let number = self.next.replace(self.next.get() + 1);
        // Of equal length, so that their order is that in which they were made.
        Ok(directory.join(&format!("{number:06}")))
    }

    /// The staging directories made so far.
    #[must_use]
    pub fn directories(&self) -> Vec<ManagedPath> {
        self.directories.borrow().values().cloned().collect()
    }

    /// Most targets share their directories.
    fn beside(&self, target: &ManagedPath, parent: ManagedPath) -> Result<ManagedPath, HostError> {
        if let Some(known) = self.known.borrow().get(&parent) {
            return Ok(known.clone());
        }
        let directory = self.directory(target)?;
        self.known.borrow_mut().insert(parent, directory.clone());
        Ok(directory)
    }

    fn directory(&self, target: &ManagedPath) -> Result<ManagedPath, HostError> {
        let existing = target.ancestors().find_map(|above| {
            let mount = self.disk.mount(Some(&above)).ok()?;
            Some((above, mount))
        });
        let mount = match &existing {
            Some((_, mount)) => *mount,
            None => self.disk.mount(None)?,
        };
        if let Some(known) = self.directories.borrow().get(&mount) {
            return Ok(known.clone());
        }
        let directory = self.top(existing.map(|(nearest, _)| nearest), mount)?;
        self.disk.make_directory(&directory, FileAttributes { mode: 0o700, uid: 0, gid: 0 }, None)?;
        self.directories.borrow_mut().insert(mount, directory.clone());
        Ok(directory)
    }

    /// The staging directory of `mount`, on which `nearest` lies.
    fn top(&self, nearest: Option<ManagedPath>, mount: u64) -> Result<ManagedPath, HostError> {
        let on_mount = |path: &ManagedPath| self.disk.mount(Some(path)).is_ok_and(|found| found == mount);
        let known = TOPS.iter().map(|top| ManagedPath::constant(top)).find(|top| on_mount(top));
        if known.is_none() && self.disk.mount(None)? == mount {
            return Ok(at_root());
        }
        let topmost = || {
            let nearest = nearest?;
            nearest.ancestors().take_while(|above| on_mount(above)).last().or(Some(nearest))
        };
        Ok(known.or_else(topmost).map_or_else(at_root, |top| top.join(STAGING_NAME)))
    }
}

fn at_root() -> ManagedPath {
    ManagedPath::constant(&format!("/{STAGING_NAME}"))
}

/// Every staging directory that there is.
pub fn leftovers(disk: &dyn HostDisk) -> Result<Vec<ManagedPath>, HostError> {
    let tops = TOPS.iter().map(|top| ManagedPath::constant(top)).chain(disk.mount_points()?);
    let places: BTreeSet<ManagedPath> = tops.map(|top| top.join(STAGING_NAME)).chain([at_root()]).collect();
    let mut found = Vec::new();
    for place in places {
        if disk.status(&place)?.is_some_and(|status| status.kind == FileKind::Directory) {
            found.push(place);
        }
    }
    Ok(found)
}

/// Removes a staging directory with all that it holds, what was staged last first.
pub fn clear(disk: &dyn HostDisk, directory: &ManagedPath) -> Result<(), HostError> {
    if !disk.status(directory)?.is_some_and(|status| status.kind == FileKind::Directory) {
        return Ok(());
    }
    let (mut files, mut directories) = (Vec::new(), vec![directory.clone()]);
    for path in disk.below(directory)? {
        match disk.status(&path)? {
            None => {}
            Some(status) if status.kind == FileKind::Directory => directories.push(path),
            Some(_) => files.push(path),
        }
    }
    files.reverse();
    disk.remove_files(&files)?;
    directories.iter().rev().try_for_each(|directory| disk.remove_directory(directory))
}
