//! Disks and saved states that hosts are started from.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use sha2::{Digest as _, Sha256};

use crate::host::HostOrigin;
use crate::lab::{INSTALLED, Lab};

/// A disk that is only read, and the state to go on from.
#[derive(Debug)]
pub struct Base {
    pub disk: PathBuf,
    pub state: Option<PathBuf>,
}

impl Base {
    fn running(folder: &Path) -> Self {
        Self { disk: folder.join("disk.qcow2"), state: Some(folder.join("state")) }
    }

    /// A disk that is to be booted.
    pub fn switched_off(folder: &Path) -> Self {
        Self { disk: folder.join("disk.qcow2"), state: None }
    }
}

/// Finds what `warm` names.
pub fn base(lab: &Lab, origin: &HostOrigin) -> Result<Base> {
    match origin {
        HostOrigin::Fresh => Ok(Base::running(&lab.stage("warm")?)),
        HostOrigin::NeverBooted => Ok(Base::switched_off(&lab.stage("disk")?)),
        HostOrigin::Unprovisioned(_) => Ok(Base::switched_off(&lab.stage(&format!("disk{INSTALLED}"))?)),
        HostOrigin::Saved(name) => {
            let folder = folder(lab, name)?;
            ensure!(folder.is_dir(), "no host was saved as {name:?} by this test program with this build");
            Ok(Base::running(&folder))
        }
        HostOrigin::Disk(disk) | HostOrigin::SwitchedOff(disk) => {
            Ok(Base { disk: disk.clone(), state: None })
        }
    }
}

/// Where the state of this name is: another place for each build and for each test program, so that what an older
/// program prepared is not mistaken for what this one would prepare.
pub fn folder(lab: &Lab, name: &str) -> Result<PathBuf> {
    let warm = lab.stage("warm")?;
    let program = std::env::current_exe()?;
    let changed = fs::metadata(&program)?.modified()?;
    let build = format!("{} {} {changed:?}", warm.display(), program.display());
    let digest = format!("{:x}", Sha256::digest(build));
    Ok(lab.folder("prepared")?.join(format!("{name}-{}", digest.get(..12).unwrap_or_default())))
}

/// Moves a disk and a state into a new folder. The disk goes on naming its own base.
pub fn keep(target: &Path, disk: &Path, state: &Path) -> Result<()> {
    let partial = target.with_extension("partial");
    remove(&partial)?;
    fs::create_dir_all(&partial).with_context(|| format!("making {}", partial.display()))?;
    fs::rename(disk, partial.join("disk.qcow2")).context("keeping the disk")?;
    fs::rename(state, partial.join("state")).context("keeping the state")?;
    remove(target)?;
    fs::rename(&partial, target).with_context(|| format!("making {}", target.display()))
}

/// Removes what older programs and builds saved under the name of `target`; each holds a guest's memory.
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
