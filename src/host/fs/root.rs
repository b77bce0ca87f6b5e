//! Handle of a root directory, through which all paths of the host are resolved.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::core::values::names::ManagedPath;
use crate::host::fs::error::{FileOperation, HostError};
use crate::host::fs::lookup;

/// Maximum number of lookups of a path while other programs rename below it (`EAGAIN` of openat2(2)).
const LOOKUPS: usize = 16;

/// Directory that acts as `/`, for absolute symbolic links too. Links above a path are followed if they stay
/// beneath it and if only the tree's owner can have created them.
#[derive(Debug)]
pub struct Root {
    handle: OwnedFd,
    grafts: RootGrafts,
    path: PathBuf,
}

/// Directories from elsewhere that replace top-level directories of a root.
#[derive(Debug, Default)]
pub(crate) struct RootGrafts {
    etc: Option<OwnedFd>,
    var: Option<OwnedFd>,
}

/// Top-level directory that a graft replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GraftPoint {
    Etc,
    Var,
}

/// Result of a directory lookup.
#[derive(Debug)]
pub(crate) struct FoundDirectory {
    pub(crate) directory: OwnedFd,
    /// Graft through which the directory was reached.
    pub(crate) graft: Option<GraftPoint>,
}

impl Root {
    pub fn open(path: &Path) -> Result<Self, HostError> {
        Ok(Self { handle: open(path)?, grafts: RootGrafts::default(), path: path.to_owned() })
    }

    /// Open the directory at `path` with the directory at `var` as its `/var`: a deployment that is not
    /// booted, as it looks when booted.
    pub fn with_var(path: &Path, var: &Path) -> Result<Self, HostError> {
        let grafts = RootGrafts { etc: None, var: Some(open(var)?) };
        Ok(Self { handle: open(path)?, grafts, path: path.to_owned() })
    }

    /// Open a deployment like [`with_var`](Self::with_var), with the directory at `etc` as its `/etc`: for a
    /// deployment without an `/etc` of its own yet.
    pub fn with_etc_and_var(path: &Path, etc: &Path, var: &Path) -> Result<Self, HostError> {
        let grafts = RootGrafts { etc: Some(open(etc)?), var: Some(open(var)?) };
        Ok(Self { handle: open(path)?, grafts, path: path.to_owned() })
    }

    /// Path of the root on the running system, for messages only.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Open the parent directory of `path`.
    pub(crate) fn parent(&self, path: &ManagedPath, op: FileOperation) -> Result<OwnedFd, HostError> {
        match path.parent() {
            Some(parent) => self.directory(&parent),
            None => self.top(),
        }
        .map_err(|errno| HostError::new(op, path.as_str(), errno))
    }

    /// Open the directory at `path`, following links that stay beneath the root.
    pub(crate) fn directory(&self, path: &ManagedPath) -> Result<OwnedFd, Errno> {
        self.find(path.relative()).map(|found| found.directory)
    }

    pub(crate) fn top(&self) -> Result<OwnedFd, Errno> {
        self.find(".").map(|found| found.directory)
    }

    /// Look up a directory. Most paths have no symbolic link and need one system call.
    pub(crate) fn find(&self, relative: &str) -> Result<FoundDirectory, Errno> {
        let (top, below) = relative.split_once('/').unwrap_or((relative, "."));
        let (start, rest, graft) = match self.grafts.at(top) {
            Some((elsewhere, graft)) => (elsewhere, below, Some(graft)),
            None => (&self.handle, relative, None),
        };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        for _ in 0..LOOKUPS {
            match rustix::fs::openat2(start, rest, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN) => {}
                Err(Errno::LOOP) => break,
                result => return result.map(|directory| FoundDirectory { directory, graft }),
            }
        }
        lookup::walk(&self.handle, &self.grafts, relative)
    }
}

impl RootGrafts {
    /// Return the graft that replaces the top-level directory `name`.
    pub(crate) fn at(&self, name: &str) -> Option<(&OwnedFd, GraftPoint)> {
        match name {
            "etc" => self.etc.as_ref().map(|etc| (etc, GraftPoint::Etc)),
            "var" => self.var.as_ref().map(|var| (var, GraftPoint::Var)),
            _ => None,
        }
    }
}

fn open(path: &Path) -> Result<OwnedFd, HostError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, path, flags, Mode::empty())
        .map_err(|errno| HostError::new(FileOperation::OpenRoot, &path.display().to_string(), errno))
}
