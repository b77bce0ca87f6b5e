//! An engine that errs on purpose: the product's, on a disk that does not do all that it is asked.

use hostwright::{
    core::{names::ManagedPath, tree::Attributes},
    host::{Disk, HostError, Status},
};

/// How the engine errs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bend {
    /// It does not.
    Straight,
}

impl Bend {
    /// What of it concerns recovery.
    pub fn of_recovery(self) -> Self {
        self
    }
}

/// The disk that such an engine works on.
pub struct Bent<'a> {
    disk: &'a dyn Disk,
    bend: Bend,
}

impl<'a> Bent<'a> {
    pub fn new(disk: &'a dyn Disk, bend: Bend) -> Self {
        Self { disk, bend }
    }
}

impl Disk for Bent<'_> {
    fn status(&self, path: &ManagedPath) -> Result<Option<Status>, HostError> {
        self.disk.status(path)
    }

    fn read(&self, path: &ManagedPath, limit: usize) -> Result<Option<Vec<u8>>, HostError> {
        self.disk.read(path, limit)
    }

    fn link_target(&self, path: &ManagedPath) -> Result<Option<String>, HostError> {
        self.disk.link_target(path)
    }

    fn label(&self, path: &ManagedPath) -> Result<Option<Vec<u8>>, HostError> {
        self.disk.label(path)
    }

    fn directory_label(&self, path: &ManagedPath) -> Result<Option<Vec<u8>>, HostError> {
        self.disk.directory_label(path)
    }

    fn below(&self, path: &ManagedPath) -> Result<Vec<ManagedPath>, HostError> {
        self.disk.below(path)
    }

    fn mount(&self, directory: Option<&ManagedPath>) -> Result<u64, HostError> {
        self.disk.mount(directory)
    }

    fn mount_points(&self) -> Result<Vec<ManagedPath>, HostError> {
        self.disk.mount_points()
    }

    fn make_directory(
        &self,
        path: &ManagedPath,
        attributes: Attributes,
        label: Option<&[u8]>,
    ) -> Result<(), HostError> {
        self.disk.make_directory(path, attributes, label)
    }

    fn set_attributes(&self, path: &ManagedPath, attributes: Attributes) -> Result<(), HostError> {
        self.disk.set_attributes(path, attributes)
    }

    fn create_file(
        &self,
        path: &ManagedPath,
        contents: &[u8],
        attributes: Attributes,
        label: Option<&[u8]>,
    ) -> Result<(), HostError> {
        self.disk.create_file(path, contents, attributes, label)
    }

    fn create_symlink(
        &self,
        path: &ManagedPath,
        target: &str,
        owner: (u32, u32),
        label: Option<&[u8]>,
    ) -> Result<(), HostError> {
        self.disk.create_symlink(path, target, owner, label)
    }

    fn hard_link(&self, from: &ManagedPath, to: &ManagedPath) -> Result<(), HostError> {
        self.disk.hard_link(from, to)
    }

    fn append(&self, path: &ManagedPath, bytes: &[u8]) -> Result<(), HostError> {
        self.disk.append(path, bytes)
    }

    fn rename(&self, from: &ManagedPath, to: &ManagedPath) -> Result<(), HostError> {
        self.disk.rename(from, to)
    }

    fn exchange(&self, a: &ManagedPath, b: &ManagedPath) -> Result<(), HostError> {
        self.disk.exchange(a, b)
    }

    fn remove_file(&self, path: &ManagedPath) -> Result<(), HostError> {
        self.disk.remove_file(path)
    }

    fn remove_directory(&self, path: &ManagedPath) -> Result<(), HostError> {
        self.disk.remove_directory(path)
    }

    fn sync(&self, paths: &[Option<ManagedPath>]) -> Result<(), HostError> {
        self.disk.sync(paths)
    }
}
