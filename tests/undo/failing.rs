//! The port of effects with one effect that fails, as on a full disk.

use std::cell::Cell;

use hostwright::core::names::ManagedPath;
use hostwright::core::tree::Attributes;
use hostwright::host::{Effects, HostError, Op, Root};
use rustix::io::Errno;

/// Lets some effects through, fails one, and lets all others through.
pub(crate) struct Failing<'a> {
    root: &'a Root,
    allowed: usize,
    asked: Cell<usize>,
}

impl<'a> Failing<'a> {
    pub(crate) fn after(root: &'a Root, allowed: usize) -> Self {
        Self { root, allowed, asked: Cell::new(0) }
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.asked.get() > self.allowed
    }

    fn ask(&self, path: &ManagedPath) -> Result<(), HostError> {
        let asked = self.asked.replace(self.asked.get() + 1);
        if asked == self.allowed {
            return Err(HostError::new(Op::Stage, path.as_str(), Errno::NOSPC));
        }
        Ok(())
    }
}

impl Effects for Failing<'_> {
    fn make_directory(
        &self,
        path: &ManagedPath,
        attributes: Attributes,
        label: Option<&[u8]>,
    ) -> Result<(), HostError> {
        self.ask(path)?;
        self.root.make_directory(path, attributes, label)
    }

    fn set_attributes(&self, path: &ManagedPath, attributes: Attributes) -> Result<(), HostError> {
        self.ask(path)?;
        self.root.set_attributes(path, attributes)
    }

    fn create_file(
        &self,
        path: &ManagedPath,
        contents: &[u8],
        attributes: Attributes,
        label: Option<&[u8]>,
    ) -> Result<(), HostError> {
        self.ask(path)?;
        self.root.create_file(path, contents, attributes, label)
    }

    fn create_symlink(
        &self,
        path: &ManagedPath,
        target: &str,
        owner: (u32, u32),
        label: Option<&[u8]>,
    ) -> Result<(), HostError> {
        self.ask(path)?;
        self.root.create_symlink(path, target, owner, label)
    }

    fn hard_link(&self, from: &ManagedPath, to: &ManagedPath) -> Result<(), HostError> {
        self.ask(to)?;
        self.root.hard_link(from, to)
    }

    fn rename(&self, from: &ManagedPath, to: &ManagedPath) -> Result<(), HostError> {
        self.ask(to)?;
        self.root.rename(from, to)
    }

    fn exchange(&self, a: &ManagedPath, b: &ManagedPath) -> Result<(), HostError> {
        self.ask(b)?;
        self.root.exchange(a, b)
    }

    fn remove_file(&self, path: &ManagedPath) -> Result<(), HostError> {
        self.ask(path)?;
        self.root.remove_file(path)
    }

    fn remove_directory(&self, path: &ManagedPath) -> Result<(), HostError> {
        self.ask(path)?;
        self.root.remove_directory(path)
    }

    fn sync_directory(&self, path: &ManagedPath) -> Result<(), HostError> {
        self.ask(path)?;
        self.root.sync_directory(path)
    }
}
