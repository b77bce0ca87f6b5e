//! Where content waits before it is renamed into place: one private directory per mount, outside
//! the directories that others watch.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use super::effects::Effects;
use super::error::HostError;
use super::root::Root;
use crate::core::decode::STAGING_NAME;
use crate::core::names::ManagedPath;
use crate::core::tree::{Attributes, Node};

/// Directories whose mounts have a staging directory of a known place.
const TOPS: [&str; 2] = ["/etc", "/var"];

/// Hands out unused names on the mount of a target.
pub struct Staging<'a> {
    root: &'a Root,
    effects: &'a dyn Effects,
    /// Staging directory by mount.
    directories: RefCell<BTreeMap<u64, ManagedPath>>,
    next: Cell<u32>,
}

impl std::fmt::Debug for Staging<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Staging").field("directories", &self.directories).finish_non_exhaustive()
    }
}

impl<'a> Staging<'a> {
    /// Prepares staging in `root`, clearing away what a killed run left. The caller holds the lock.
    pub fn open(root: &'a Root, effects: &'a dyn Effects) -> Result<Self, HostError> {
        let staging = Self { root, effects, directories: RefCell::default(), next: Cell::new(0) };
        for top in TOPS {
            let top = ManagedPath::constant(top);
            clear(root, effects, &top.join(STAGING_NAME))?;
        }
        Ok(staging)
    }

    /// An unused path from which a rename to `target` needs no copy. The directory of `target`,
    /// or the nearest one above it that exists, tells the mount.
    pub fn slot(&self, target: &ManagedPath) -> Result<ManagedPath, HostError> {
        let directory = self.directory(target)?;
        let name = self.next.replace(self.next.get() + 1).to_string();
        Ok(directory.join(&name))
    }

    /// Removes everything staged, pre-images included.
    pub fn close(self) -> Result<(), HostError> {
        self.directories.borrow().values().try_for_each(|directory| clear(self.root, self.effects, directory))
    }

    fn directory(&self, target: &ManagedPath) -> Result<ManagedPath, HostError> {
        let existing = target.ancestors().find_map(|above| {
            let mount = self.root.mount(Some(&above)).ok()?;
            Some((above, mount))
        });
        let mount = match &existing {
            Some((_, mount)) => *mount,
            None => self.root.mount(None)?,
        };
        if let Some(known) = self.directories.borrow().get(&mount) {
            return Ok(known.clone());
        }
        let directory = match existing {
            Some((nearest, mount)) => self.top(nearest, mount).join(STAGING_NAME),
            // Nothing above the target exists but the root itself.
            None => ManagedPath::constant(&format!("/{STAGING_NAME}")),
        };
        clear(self.root, self.effects, &directory)?;
        self.effects.make_directory(&directory, Attributes { mode: 0o700, uid: 0, gid: 0 }, None)?;
        self.directories.borrow_mut().insert(mount, directory.clone());
        Ok(directory)
    }

    /// `/etc` or `/var` where they lie on that mount, else the topmost directory that does.
    fn top(&self, nearest: ManagedPath, mount: u64) -> ManagedPath {
        let on_mount = |path: &ManagedPath| self.root.mount(Some(path)).is_ok_and(|found| found == mount);
        let known = TOPS.iter().filter_map(|top| ManagedPath::parse(top).ok()).find(|top| on_mount(top));
        known.unwrap_or_else(|| {
            let above = nearest.ancestors().take_while(|above| on_mount(above)).last();
            above.unwrap_or(nearest)
        })
    }
}

/// Removes a staging directory with all that it holds.
fn clear(root: &Root, effects: &dyn Effects, directory: &ManagedPath) -> Result<(), HostError> {
    if !matches!(root.node(directory)?, Node::Directory { .. }) {
        return Ok(());
    }
    for path in root.below(directory)?.into_iter().rev() {
        match root.node(&path)? {
            Node::Directory { .. } => effects.remove_directory(&path)?,
            _ => effects.remove_file(&path)?,
        }
    }
    effects.remove_directory(directory)
}
