//! Where what was built lies.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::program;

/// The registry's address in every guest; QEMU connects it to one on this machine, or to nothing.
pub const REGISTRY: &str = "10.0.2.100:5000";
/// The version of the OS that machines are installed with, for Ignition to provision them.
pub const INSTALLED: u32 = 4;
/// The repository in it.
pub const REPOSITORY: &str = "flameholder/os";

/// A finished build: what hosts are started from.
#[derive(Debug, Clone)]
pub struct Lab {
    root: PathBuf,
}

impl Lab {
    /// The build in the workspace's target directory, or where `FLAMEHOLDER_VM` says.
    ///
    /// # Errors
    /// Nothing is built there.
    pub fn locate() -> Result<Self> {
        let lab = Self::at(Self::directory());
        fs::metadata(lab.root.join("current/warm")).with_context(|| {
            format!("no host is built in {}; run: cargo xtask vm build", lab.root.display())
        })?;
        Ok(lab)
    }

    /// Where a build is, or is to be.
    pub fn directory() -> PathBuf {
        std::env::var_os("FLAMEHOLDER_VM")
            .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/vm"), PathBuf::from)
    }

    pub(crate) fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// The folder of one stage.
    ///
    /// # Errors
    /// The stage was not built.
    pub fn stage(&self, name: &str) -> Result<PathBuf> {
        let link = self.root.join("current").join(name);
        link.canonicalize()
            .with_context(|| format!("looking for the stage {name} in {}", self.root.display()))
    }

    /// A folder beside the build, made where it is missing: `run`, `failures`, `prepared`.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.root.join(name);
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        Ok(folder.canonicalize()?)
    }

    /// What every guest calls this version of the OS: registry, repository and digest.
    pub fn image(&self, version: u32) -> Result<String> {
        image_reference(&self.stage("images")?, version)
    }

    /// A program of the builder tree.
    pub(crate) fn program(&self, path: &str) -> Result<Command> {
        Ok(program::of_tree(&self.stage("builder")?.join("tree"), path))
    }

    /// A new disk that shows what `base` holds and keeps what is written to it for itself.
    pub(crate) fn overlay(&self, base: &Path, disk: &Path) -> Result<()> {
        let mut create = self.program("usr/bin/qemu-img")?;
        create.args(["create", "-q", "-f", "qcow2", "-F", "qcow2", "-b"]).arg(base).arg(disk);
        program::read(&mut create).map(drop)
    }
}

pub(crate) fn image_reference(images: &Path, version: u32) -> Result<String> {
    let file = images.join(format!("digest-{version}"));
    let digest = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    Ok(format!("{REGISTRY}/{REPOSITORY}@{}", digest.trim()))
}
