//! The one handle through which everything on the host is reached, anchored at a directory.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::error::{HostError, Op};
use crate::core::names::ManagedPath;

/// How often a lookup is repeated that the kernel gave up because somebody renamed under it.
const LOOKUPS: usize = 16;

/// A directory that stands for `/`. Symbolic links above a path are followed as long as they stay
/// beneath it; absolute ones leave it by definition.
#[derive(Debug)]
pub struct Root {
    handle: OwnedFd,
    path: PathBuf,
}

impl Root {
    /// Opens the directory at `path`.
    pub fn open(path: &Path) -> Result<Self, HostError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(CWD, path, flags, Mode::empty())
            .map_err(|errno| HostError::new(Op::OpenRoot, &path.display().to_string(), errno))?;
        Ok(Self { handle, path: path.to_owned() })
    }

    /// Where the root lies on the running system, for messages only.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the directory that holds `path`.
    pub(super) fn parent(&self, path: &ManagedPath, op: Op) -> Result<OwnedFd, HostError> {
        match path.parent() {
            Some(parent) => self.directory(&parent),
            None => self.top(),
        }
        .map_err(|errno| HostError::new(op, path.as_str(), errno))
    }

    /// Opens the directory at `path`, following links that stay beneath the root.
    pub(super) fn directory(&self, path: &ManagedPath) -> Result<OwnedFd, Errno> {
        self.lookup(path.relative(), OFlags::PATH | OFlags::DIRECTORY)
    }

    /// Opens the root directory itself.
    pub(super) fn top(&self) -> Result<OwnedFd, Errno> {
        self.lookup(".", OFlags::PATH | OFlags::DIRECTORY)
    }

    fn lookup(&self, relative: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let flags = flags | OFlags::CLOEXEC;
        for _ in 1..LOOKUPS {
            match rustix::fs::openat2(&self.handle, relative, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN) => {}
                result => return result,
            }
        }
        rustix::fs::openat2(&self.handle, relative, flags, Mode::empty(), resolve)
    }
}
