//! Getting rid of sysroots: libostree makes the root of each deployment immutable.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rustix::fs::{IFlags, Mode, OFlags, ioctl_getflags, ioctl_setflags};

/// Removes a directory with all sysroots in it. A missing one is fine.
pub fn remove(directory: &Path) -> anyhow::Result<()> {
    match fs::symlink_metadata(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found.with_context(|| format!("looking at {}", directory.display()))?,
    };
    release(directory).with_context(|| format!("clearing immutable flags in {}", directory.display()))?;
    fs::remove_dir_all(directory).with_context(|| format!("removing {}", directory.display()))
}

/// Clears the immutable flag of every directory. Only directories have it here, and none below an `etc` or `usr`.
fn release(directory: &Path) -> std::io::Result<()> {
    let handle = rustix::fs::open(
        directory,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    // File systems without such flags, as tmpfs, make nothing immutable.
    if let Ok(flags) = ioctl_getflags(&handle)
        && flags.contains(IFlags::IMMUTABLE)
    {
        ioctl_setflags(&handle, flags - IFlags::IMMUTABLE)?;
    }
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let holds_deployments = !["usr", "etc", "objects"].iter().any(|name| entry.file_name() == *name);
        if holds_deployments && entry.file_type()?.is_dir() {
            release(&entry.path())?;
        }
    }
    Ok(())
}

/// A new directory that is removed with all sysroots in it when this is dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes the directory, in `/var/tmp`: extended attributes and hard links work there, which not every `/tmp` has.
    pub fn new() -> anyhow::Result<Self> {
        Self::below(Path::new("/var/tmp"))
    }

    /// Makes the directory below one that has extended attributes and hard links.
    pub fn below(parent: &Path) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("osimage-")
            .tempdir_in(parent)
            .with_context(|| format!("making a scratch directory in {}", parent.display()))?;
        Ok(Self(directory.keep()))
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.0) {
            eprintln!("a scratch directory stays behind: {error:#}");
        }
    }
}
