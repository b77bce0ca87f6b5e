//! Paths of a finished build.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::program;

/// Address of the registry in each guest. QEMU forwards it to the host's registry on this machine, if that
/// runs.
pub const REGISTRY: &str = "10.0.2.100:5000";
/// Version of the OS on the disk of an unprovisioned machine; its initramfs has Ignition.
pub const INSTALLED: u32 = 4;
/// Version of the OS without the agent, on the disk of an unprovisioned machine.
pub const WITHOUT_AGENT: u32 = 5;
/// Version of the OS whose image is signed in the registry.
pub const SIGNED: u32 = 2;
/// Repository of the OS images in the registry.
pub const REPOSITORY: &str = "flameholder/os";

/// Operating system of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestOs {
    /// Debian with OSTree.
    Plain,
    /// The same with SELinux enforcing, and the policy modules of the project and of the tests.
    Selinux,
    /// The same with what kola asks of a guest: sshd, sudo, and what tells it that this is CoreOS.
    Kola,
}

/// A finished build, whose stages hosts start from.
#[derive(Debug, Clone)]
pub struct Lab {
    root: PathBuf,
    os: GuestOs,
}

impl GuestOs {
    /// Return the operating system of the hosts that scenarios start: `FLAMEHOLDER_VM_OS=selinux` chooses the one with
    /// SELinux.
    pub(crate) fn of_scenarios() -> Self {
        match std::env::var_os("FLAMEHOLDER_VM_OS") {
            Some(name) if name == "selinux" => Self::Selinux,
            _ => Self::Plain,
        }
    }

    /// Return the command that builds this operating system.
    fn build(self) -> &'static str {
        match self {
            Self::Plain => "cargo xtask vm build",
            Self::Selinux => "cargo xtask vm build --selinux",
            Self::Kola => "cargo xtask vm kola",
        }
    }

    /// Return the name of a stage that is built for each operating system.
    pub(crate) fn stage(self, name: &str) -> String {
        match self {
            Self::Plain => name.to_owned(),
            Self::Selinux => format!("{name}-selinux"),
            Self::Kola => format!("{name}-kola"),
        }
    }
}

impl Lab {
    /// Find the build in the workspace's target directory, or in the directory that `FLAMEHOLDER_VM` names.
    ///
    /// # Errors
    /// There is no finished build of the scenarios' operating system.
    pub fn locate() -> Result<Self> {
        let os = GuestOs::of_scenarios();
        let lab = Self::at(Self::directory(), os);
        lab.os_stage("warm").with_context(|| format!("no finished build; run: {}", os.build()))?;
        Ok(lab)
    }

    /// Return the directory of the build, which may not exist yet.
    pub fn directory() -> PathBuf {
        std::env::var_os("FLAMEHOLDER_VM")
            .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/vm"), PathBuf::from)
    }

    /// Return the Debian tree with the programs that builds and tests use.
    ///
    /// # Errors
    /// It is not built.
    pub fn builder() -> Result<PathBuf> {
        let folder = Self::at(Self::directory(), GuestOs::Plain).stage("builder");
        Ok(folder.context("no tree with skopeo and a registry; run: cargo xtask vm builder")?.join("tree"))
    }

    pub(crate) fn at(root: PathBuf, os: GuestOs) -> Self {
        Self { root, os }
    }

    pub(crate) fn os(&self) -> GuestOs {
        self.os
    }

    /// Return the folder of a stage that is built for this operating system.
    ///
    /// # Errors
    /// The stage is not built.
    pub fn os_stage(&self, name: &str) -> Result<PathBuf> {
        self.stage(&self.os.stage(name))
    }

    /// Return the folder of a stage.
    ///
    /// # Errors
    /// The stage is not built.
    pub fn stage(&self, name: &str) -> Result<PathBuf> {
        let link = self.root.join("current").join(name);
        link.canonicalize().with_context(|| format!("finding stage {name} in {}", self.root.display()))
    }

    /// Return a folder beside the build (`run`, `failures`, `prepared`), and create it if it is missing.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.root.join(name);
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        Ok(folder.canonicalize()?)
    }

    /// Return the reference of this version of the OS in each guest: registry, repository and digest.
    pub fn image(&self, version: u32) -> Result<String> {
        image_reference(&self.os_stage("images")?, version)
    }

    /// Return a command that runs a program of the builder tree.
    pub(crate) fn program(&self, path: &str) -> Result<Command> {
        Ok(program::of_tree(&self.stage("builder")?.join("tree"), path))
    }

    /// Create a disk image as an overlay on `base`: writes go to the overlay only.
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
