//! Which deployment runs, told without libostree: activation comes before anything that it needs.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::core::state::booted_state::BootObservation;
use crate::core::state::pending::PendingGeneration;
use crate::core::state::record::GenerationRecord;
use crate::core::values::deployment::DeploymentId;
use crate::core::values::kernel_arguments;
use crate::core::values::kernel_arguments::KernelArgument;
use crate::core::values::paths::GENERATION_ARGUMENT;
use crate::host::Root;
use crate::host::fs::error::{FileOperation, HostError};

/// What the bootloader gave the kernel.
const COMMAND_LINE: &str = "/proc/cmdline";

/// Made early in a boot through OSTree.
pub(crate) const BOOTED: &str = "/run/ostree-booted";

/// Where the bootloader's entries are, on a file system of its own perhaps.
const ENTRIES: &str = "/boot/loader";
/// How often they are looked for.
const PACE: Duration = Duration::from_millis(100);

/// Where the physical root is on a system that OSTree booted.
pub const SYSROOT: &str = "/sysroot";

/// The running deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootedDeployment {
    /// Its name.
    pub deployment: DeploymentId,
    /// The generation that its boot entry names.
    pub generation: Option<String>,
}

impl BootedDeployment {
    /// Finds out; `None` where the system was not booted through OSTree.
    pub fn look() -> Result<Option<Self>, HostError> {
        if !Path::new(BOOTED).exists() {
            return Ok(None);
        }
        let failed = |path: &Path, error| HostError::io(FileOperation::Read, path, &error);
        let line = Path::new(COMMAND_LINE);
        let line = std::fs::read_to_string(line).map_err(|error| failed(line, error))?;
        let sysroot = Path::new(SYSROOT);
        let deployment = running(sysroot).map_err(|error| failed(sysroot, error))?;
        let deployment = deployment.or_else(|| linked(sysroot, &line));
        Ok(deployment.map(|deployment| Self { deployment, generation: generation(&line) }))
    }

    /// Together with what is written of it.
    #[must_use]
    pub fn seen<'a>(
        &'a self,
        record: Option<&'a GenerationRecord>,
        pending: Option<&'a PendingGeneration>,
    ) -> BootObservation<'a> {
        BootObservation {
            deployment: &self.deployment,
            argument: self.generation.as_deref(),
            record,
            pending,
        }
    }

    /// Where the deployment lies below the physical root.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        Path::new(SYSROOT).join(self.deployment.path())
    }
}

/// Whether the bootloader's entries appear within `limit`: early in a boot their file system is still being mounted, and
/// nobody says when it is.
#[must_use]
pub fn has_entries_within(limit: Duration) -> bool {
    let end = Instant::now() + limit;
    loop {
        if Path::new(ENTRIES).exists() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(PACE);
    }
}

/// What the kernel was started with.
pub fn kernel_arguments() -> Result<Vec<KernelArgument>, HostError> {
    let line = Path::new(COMMAND_LINE);
    let read = std::fs::read_to_string(line);
    Ok(kernel_arguments::parse(&read.map_err(|error| HostError::io(FileOperation::Read, line, &error))?))
}

/// The deployment whose directory is the root directory. The links that the boot entry goes by are
/// replaced while a new deployment is finalized; this is not.
fn running(sysroot: &Path) -> std::io::Result<Option<DeploymentId>> {
    let root = std::fs::metadata("/")?;
    let is_root = |found: &Metadata| (found.dev(), found.ino()) == (root.dev(), root.ino());
    for stateroot in sysroot.join("ostree/deploy").read_dir()?.flatten() {
        let Ok(directories) = stateroot.path().join("deploy").read_dir() else { continue };
        for directory in directories.flatten() {
            if directory.path().symlink_metadata().is_ok_and(|found| is_root(&found)) {
                let (stateroot, name) = (stateroot.file_name(), directory.file_name());
                return Ok(DeploymentId::from_directory(
                    &stateroot.to_string_lossy(),
                    &name.to_string_lossy(),
                ));
            }
        }
    }
    Ok(None)
}

/// The deployment that the boot entry's `ostree=` leads to: where the root is a composed image, its
/// directory is not the root directory.
fn linked(sysroot: &Path, line: &str) -> Option<DeploymentId> {
    let entry = argument(line, "ostree=")?;
    let target = std::fs::read_link(sysroot.join(entry.trim_start_matches('/'))).ok()?;
    let mut parts = target.iter().rev().map(|part| part.to_string_lossy());
    let (directory, _deploy, stateroot) = (parts.next()?, parts.next()?, parts.next()?);
    DeploymentId::from_directory(&stateroot, &directory)
}

fn generation(line: &str) -> Option<String> {
    argument(line, GENERATION_ARGUMENT)
}

/// The kernel goes by the last one.
fn argument(line: &str, name: &str) -> Option<String> {
    let arguments = kernel_arguments::parse(line).into_iter().rev().map(|argument| argument.to_string());
    arguments.into_iter().find_map(|argument| argument.strip_prefix(name).map(str::to_owned))
}

/// A deployment as it is when it runs: with the `/var` of its stateroot.
pub(crate) fn open_deployment(sysroot: &Path, id: &DeploymentId) -> Result<Root, HostError> {
    Root::with_var(&sysroot.join(id.path()), &sysroot.join(format!("ostree/deploy/{}/var", id.stateroot)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_entry_names_the_generation() {
        let line = "BOOT_IMAGE=/x root=LABEL=root flameholder.generation=0a rw\n";
        assert_eq!(generation(line).as_deref(), Some("0a"));
        assert_eq!(generation("rw xflameholder.generation=1"), None);
    }

    #[test]
    fn the_boot_entry_leads_to_the_deployment() {
        let sysroot = tempfile::tempdir().unwrap();
        let (commit, boot) = ("a".repeat(64), sysroot.path().join("ostree/boot.1/os/b"));
        std::fs::create_dir_all(&boot).unwrap();
        let target = format!("../../../deploy/os/deploy/{commit}.2");
        std::os::unix::fs::symlink(target, boot.join("0")).unwrap();
        let found = linked(sysroot.path(), "ro ostree=/ostree/boot.1/os/b/0");
        assert_eq!(found, Some(DeploymentId { stateroot: "os".into(), commit, serial: 2 }));
        assert_eq!(linked(sysroot.path(), "ro ostree=/ostree/boot.0/os/b/0"), None);
    }
}
