//! Removal of sysroots, in which libostree makes the root of each deployment immutable.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rustix::fs::{IFlags, Mode, OFlags, ioctl_getflags, ioctl_setflags};

/// Remove a directory with all sysroots in it. The directory need not exist.
pub fn remove(directory: &Path) -> anyhow::Result<()> {
    match fs::symlink_metadata(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found.with_context(|| format!("reading the status of {}", directory.display()))?,
    };
    clear_immutable(directory)
        .with_context(|| format!("clearing immutable flags in {}", directory.display()))?;
    fs::remove_dir_all(directory).with_context(|| format!("removing {}", directory.display()))
}

/// Clear the immutable flag of every directory. Only directories have the flag, and none below an `etc` or
/// `usr`.
fn clear_immutable(directory: &Path) -> std::io::Result<()> {
    let handle = rustix::fs::open(
        directory,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    // On a file system without such flags, for example tmpfs, no directory is immutable.
    if let Ok(flags) = ioctl_getflags(&handle)
        && flags.contains(IFlags::IMMUTABLE)
    {
        ioctl_setflags(&handle, flags - IFlags::IMMUTABLE)?;
    }
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let may_hold_deployments = !["usr", "etc", "objects"].iter().any(|name| entry.file_name() == *name);
        if may_hold_deployments && entry.file_type()?.is_dir() {
            clear_immutable(&entry.path())?;
        }
    }
    Ok(())
}

/// Temporary directory that is removed, with all sysroots in it, when this value is dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Create the directory in `/var/tmp`, which has extended attributes and hard links; `/tmp` may lack
    /// them.
    pub fn new() -> anyhow::Result<Self> {
        Self::below(Path::new("/var/tmp"))
    }

    /// Create the directory below `parent`, which must have extended attributes and hard links.
    pub fn below(parent: &Path) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("osimage-")
            .tempdir_in(parent)
            .with_context(|| format!("making a scratch directory in {}", parent.display()))?;
        Ok(Self(directory.keep()))
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.0) {
            eprintln!("cannot remove a scratch directory: {error:#}");
        }
    }
}
