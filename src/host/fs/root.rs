//! The one handle through which everything on the host is reached, anchored at a directory.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::core::values::names::ManagedPath;
use crate::host::fs::error::{FileOperation, HostError};
use crate::host::fs::lookup;

/// How often a lookup is repeated that the kernel gave up because somebody renamed under it.
const LOOKUPS: usize = 16;

/// A directory that stands for `/`. Symbolic links above a path are followed as long as they stay
/// beneath it, absolute ones leave it by definition, and as long as nobody but its owner can have
/// put them there.
#[derive(Debug)]
pub struct Root {
    handle: OwnedFd,
    grafts: RootGrafts,
    path: PathBuf,
}

/// Directories that stand for top directories of a root, and lie elsewhere.
#[derive(Debug, Default)]
pub(crate) struct RootGrafts {
    etc: Option<OwnedFd>,
    var: Option<OwnedFd>,
}

/// Which of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GraftPoint {
    /// `/etc`.
    Etc,
    /// `/var`.
    Var,
}

/// A directory that was found.
#[derive(Debug)]
pub(crate) struct FoundDirectory {
    pub(crate) directory: OwnedFd,
    /// What it is reached through that lies elsewhere.
    pub(crate) graft: Option<GraftPoint>,
}

impl Root {
    /// Opens the directory at `path`.
    pub fn open(path: &Path) -> Result<Self, HostError> {
        Ok(Self { handle: open(path)?, grafts: RootGrafts::default(), path: path.to_owned() })
    }

    /// Opens the directory at `path`, with the one at `var` as its `/var`: a deployment at rest, as
    /// it is when it runs.
    pub fn with_var(path: &Path, var: &Path) -> Result<Self, HostError> {
        let grafts = RootGrafts { etc: None, var: Some(open(var)?) };
        Ok(Self { handle: open(path)?, grafts, path: path.to_owned() })
    }

    /// The same, with the directory at `etc` as its `/etc`: a deployment that has none of its own yet.
    pub fn with_etc_and_var(path: &Path, etc: &Path, var: &Path) -> Result<Self, HostError> {
        let grafts = RootGrafts { etc: Some(open(etc)?), var: Some(open(var)?) };
        Ok(Self { handle: open(path)?, grafts, path: path.to_owned() })
    }

    /// Where the root lies on the running system, for messages only.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the directory that holds `path`.
    pub(crate) fn parent(&self, path: &ManagedPath, op: FileOperation) -> Result<OwnedFd, HostError> {
        match path.parent() {
            Some(parent) => self.directory(&parent),
            None => self.top(),
        }
        .map_err(|errno| HostError::new(op, path.as_str(), errno))
    }

    /// Opens the directory at `path`, following links that stay beneath the root.
    pub(crate) fn directory(&self, path: &ManagedPath) -> Result<OwnedFd, Errno> {
        self.find(path.relative()).map(|found| found.directory)
    }

    /// Opens the root directory itself.
    pub(crate) fn top(&self) -> Result<OwnedFd, Errno> {
        self.find(".").map(|found| found.directory)
    }

    /// Finds a directory. Most paths have no link in them, and one call finds them.
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
    /// What stands for the top directory `name`.
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
