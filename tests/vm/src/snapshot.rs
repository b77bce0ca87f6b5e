//! Disks and saved memory that hosts start from.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use sha2::{Digest as _, Sha256};

use crate::build::cache;
use crate::host::HostOrigin;
use crate::lab::{INSTALLED, Lab, WITHOUT_AGENT};

/// Base of a host: a read-only disk image, and the saved memory to resume from, if any.
#[derive(Debug)]
pub struct Base {
    pub disk: PathBuf,
    pub state: Option<PathBuf>,
}

impl Base {
    fn running(folder: &Path) -> Self {
        Self { disk: folder.join("disk.qcow2"), state: Some(folder.join("state")) }
    }

    /// Return the base of a host that boots from the disk in `folder`.
    pub fn switched_off(folder: &Path) -> Self {
        Self { disk: folder.join("disk.qcow2"), state: None }
    }
}

/// Return the base for an origin.
///
/// # Errors
/// The stage is not built, or no host is saved under the name.
pub fn base(lab: &Lab, origin: &HostOrigin) -> Result<Base> {
    match origin {
        HostOrigin::Fresh => Ok(Base::running(&lab.os_stage("warm")?)),
        HostOrigin::NeverBooted => Ok(Base::switched_off(&lab.os_stage("disk")?)),
        HostOrigin::Unprovisioned(_) => Ok(Base::switched_off(&lab.os_stage(&format!("disk{INSTALLED}"))?)),
        HostOrigin::WithoutAgent(_) => {
            Ok(Base::switched_off(&lab.os_stage(&format!("disk{WITHOUT_AGENT}"))?))
        }
        HostOrigin::Saved(name) => {
            let folder = folder(lab, name)?;
            ensure!(folder.is_dir(), "no host {name:?} is saved by this test program for this build");
            Ok(Base::running(&folder))
        }
        HostOrigin::Disk(disk) | HostOrigin::SwitchedOff(disk) => {
            Ok(Base { disk: disk.clone(), state: None })
        }
    }
}

/// Return the folder of a saved host. It is in the folder of this build and this test program, so that a host
/// that an older program saved is never taken for a current one.
pub fn folder(lab: &Lab, name: &str) -> Result<PathBuf> {
    let warm = lab.os_stage("warm")?;
    let path = std::env::current_exe()?;
    let changed = fs::metadata(&path)?.modified()?;
    let build = format!("{} {} {changed:?}", warm.display(), path.display());
    let digest = format!("{:x}", Sha256::digest(build));
    let executable = path.file_name().unwrap_or_default().to_string_lossy();
    let program = executable.split('-').next().unwrap_or_default();
    let hosts = format!("{program}-{}", digest.get(..12).unwrap_or_default());
    Ok(lab.folder("prepared")?.join(hosts).join(name))
}

/// Move a disk and a saved memory into a new folder. The disk still names its own base image.
pub fn keep(target: &Path, disk: &Path, state: &Path) -> Result<()> {
    let partial = target.with_extension("partial");
    remove(&partial)?;
    fs::create_dir_all(&partial).with_context(|| format!("making {}", partial.display()))?;
    fs::rename(disk, partial.join("disk.qcow2")).context("moving the disk")?;
    fs::rename(state, partial.join("state")).context("moving the saved memory")?;
    remove(target)?;
    fs::rename(&partial, target).with_context(|| format!("making {}", target.display()))
}

/// Remove the hosts that other builds of the test program saved: each holds the memory of a guest. They are removed
/// together, since a disk is an overlay on the disk of another saved host.
pub fn remove_others(target: &Path) -> Result<()> {
    let hosts = target.parent().with_context(|| format!("{} has no parent", target.display()))?;
    cache::remove_other_versions(hosts)
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_other_builds_are_removed_with_all_that_are_based_on_them() {
        let all = tempfile::tempdir().unwrap();
        let saved = |hosts: &str, name: &str| {
            let folder = all.path().join(hosts).join(name);
            fs::create_dir_all(&folder).unwrap();
            folder
        };
        let former = [saved("hosts-0123", "one"), saved("hosts-0123", "two")];
        let kept = [saved("hosts-4567", "one"), saved("smoke-0123", "prepared")];
        fs::write(all.path().join("one.lock"), "").unwrap();
        remove_others(&all.path().join("hosts-4567/two")).unwrap();
        assert!(former.iter().all(|folder| !folder.exists()));
        assert!(kept.iter().all(|folder| folder.exists()));
    }
}
