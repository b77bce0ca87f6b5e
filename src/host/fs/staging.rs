//! Staging directories for new content before it is renamed into place: one private directory per mount,
//! outside the directories that other programs watch.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use crate::core::config::decode::STAGING_NAME;
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::{FileAttributes, FileKind};
use crate::host::fs::disk::HostDisk;
use crate::host::fs::error::HostError;

/// Preferred parents of a mount's staging directory. A mount that holds neither has it at its mount point.
const TOPS: [&str; 2] = ["/etc", "/var"];

/// Allocator of unused names on the mount of a target.
pub struct StagingArea<'a> {
    disk: &'a dyn HostDisk,
    /// Staging directory of each mount, by mount ID.
    directories: RefCell<BTreeMap<u64, ManagedPath>>,
    /// Staging directory of each target's parent directory, as a cache.
    known: RefCell<BTreeMap<ManagedPath, ManagedPath>>,
    next: Cell<u32>,
}

impl std::fmt::Debug for StagingArea<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StagingArea").field("directories", &self.directories).finish_non_exhaustive()
    }
}

impl<'a> StagingArea<'a> {
    /// Create an area without staging directories.
    #[must_use]
    pub fn new(disk: &'a dyn HostDisk) -> Self {
        Self { disk, directories: RefCell::default(), known: RefCell::default(), next: Cell::new(0) }
    }

    /// Allocate an unused path from which `target` can be reached by a rename. The nearest existing directory
    /// above `target` determines the mount.
    pub fn slot(&self, target: &ManagedPath) -> Result<ManagedPath, HostError> {
        let directory = match target.parent() {
            Some(parent) => self.beside(target, parent)?,
            None => self.directory(target)?,
        };
        let number = self.next.replace(self.next.get() + 1);
        // Fixed width, so that names sort in order of their creation.
        Ok(directory.join(&format!("{number:06}")))
    }

    /// List the staging directories created so far.
    #[must_use]
    pub fn directories(&self) -> Vec<ManagedPath> {
        self.directories.borrow().values().cloned().collect()
    }

    /// Look up the staging directory by parent directory first: most targets share their parents.
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

    /// Choose the path of the staging directory of `mount`, which holds `nearest`.
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

/// Return the inode of a staging directory; `None` if it does not exist.
pub fn inode(disk: &dyn HostDisk, directory: &ManagedPath) -> Result<Option<u64>, HostError> {
    Ok(disk.status(directory)?.map(|status| status.inode))
}

/// List all existing staging directories, including those of interrupted changes.
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

/// Remove a staging directory and its content, in reverse order of creation.
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
