//! The one handle through which everything on the host is reached, anchored at a directory.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::error::{HostError, Op};
use super::lookup;
use crate::core::names::ManagedPath;

/// How often a lookup is repeated that the kernel gave up because somebody renamed under it.
const LOOKUPS: usize = 16;

/// A directory that stands for `/`. Symbolic links above a path are followed as long as they stay
/// beneath it, absolute ones leave it by definition, and as long as nobody but its owner can have
/// put them there.
#[derive(Debug)]
pub struct Root {
    handle: OwnedFd,
    /// What stands for `/var`, where that lies elsewhere.
    var: Option<OwnedFd>,
    path: PathBuf,
}

/// A directory that was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) directory: OwnedFd,
    /// Whether it is reached through a `/var` that lies elsewhere.
    pub(super) in_var: bool,
}

impl Root {
    /// Opens the directory at `path`.
    pub fn open(path: &Path) -> Result<Self, HostError> {
        Ok(Self { handle: open(path)?, var: None, path: path.to_owned() })
    }

    /// Opens the directory at `path`, with the one at `var` as its `/var`: a deployment at rest, as
    /// it is when it runs.
    pub fn with_var(path: &Path, var: &Path) -> Result<Self, HostError> {
        Ok(Self { handle: open(path)?, var: Some(open(var)?), path: path.to_owned() })
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
        self.find(path.relative()).map(|found| found.directory)
    }

    /// Opens the root directory itself.
    pub(super) fn top(&self) -> Result<OwnedFd, Errno> {
        self.find(".").map(|found| found.directory)
    }

    /// Finds a directory. Most paths have no link in them, and one call finds them.
    pub(super) fn find(&self, relative: &str) -> Result<Found, Errno> {
        let (start, rest, in_var) = match (&self.var, within_var(relative)) {
            (Some(var), Some(rest)) => (var, rest, true),
            _ => (&self.handle, relative, false),
        };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        for _ in 0..LOOKUPS {
            match rustix::fs::openat2(start, rest, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN) => {}
                Err(Errno::LOOP) => break,
                result => return result.map(|directory| Found { directory, in_var }),
            }
        }
        lookup::walk(&self.handle, self.var.as_ref(), relative)
    }
}

fn within_var(relative: &str) -> Option<&str> {
    match relative.strip_prefix("var")? {
        "" => Some("."),
        rest => rest.strip_prefix('/'),
    }
}

fn open(path: &Path) -> Result<OwnedFd, HostError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, path, flags, Mode::empty())
        .map_err(|errno| HostError::new(Op::OpenRoot, &path.display().to_string(), errno))
}
