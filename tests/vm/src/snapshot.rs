//! Disks and saved memory that hosts start from.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use sha2::{Digest as _, Sha256};

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

/// Return the folder of a saved host. The path depends on the build and on the test program, so that a state
/// that an older program prepared is never taken for a current one.
pub fn folder(lab: &Lab, name: &str) -> Result<PathBuf> {
    let warm = lab.os_stage("warm")?;
    let program = std::env::current_exe()?;
    let changed = fs::metadata(&program)?.modified()?;
    let build = format!("{} {} {changed:?}", warm.display(), program.display());
    let digest = format!("{:x}", Sha256::digest(build));
    Ok(lab.folder("prepared")?.join(format!("{name}-{}", digest.get(..12).unwrap_or_default())))
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

/// Remove the hosts that older programs and builds saved under the name of `target`: each holds the memory of
/// a guest.
pub fn remove_others(target: &Path) -> Result<()> {
    let name = |path: &Path| path.file_name()?.to_str()?.rsplit_once('-').map(|(name, _)| name.to_owned());
    let parent = target.parent().with_context(|| format!("{} has no parent", target.display()))?;
    for entry in fs::read_dir(parent).with_context(|| format!("listing {}", parent.display()))? {
        let path = entry?.path();
        if path != target && name(&path) == name(target) {
            remove(&path)?;
        }
    }
    Ok(())
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", folder.display()))
        }
        _ => Ok(()),
    }
}
