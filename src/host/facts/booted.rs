//! Booted deployment, found without libostree: activation runs before libostree could work.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::core::state::booted_state::BootObservation;
use crate::core::state::pending::PendingGeneration;
use crate::core::state::record::GenerationRecord;
use crate::core::values::deployment::DeploymentId;
use crate::core::values::identifiers::GenerationId;
use crate::core::values::kernel_arguments::KernelArguments;
use crate::core::values::paths::GENERATION_ARGUMENT;
use crate::host::Root;
use crate::host::fs::error::{FileOperation, HostError};

const COMMAND_LINE: &str = "/proc/cmdline";

/// Created early in a boot through OSTree.
pub(crate) const BOOTED: &str = "/run/ostree-booted";

/// Directory of the boot entries, possibly on a separate file system.
const ENTRIES: &str = "/boot/loader";
/// Interval of checks for the boot entries.
const PACE: Duration = Duration::from_millis(100);

/// Mount point of the physical root on a system that booted through OSTree.
pub const SYSROOT: &str = "/sysroot";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootedDeployment {
    pub deployment: DeploymentId,
    /// Generation named by the booted entry's `flameholder.generation` argument.
    pub generation: Option<GenerationId>,
}

impl BootedDeployment {
    /// Find the booted deployment on a system that booted through OSTree with these kernel arguments.
    pub fn observe(arguments: &KernelArguments) -> Result<Option<Self>, HostError> {
        let sysroot = Path::new(SYSROOT);
        let deployment =
            running(sysroot).map_err(|error| HostError::io(FileOperation::Read, sysroot, &error))?;
        let deployment = deployment.or_else(|| linked(sysroot, arguments));
        Ok(deployment.map(|deployment| Self { deployment, generation: generation(arguments) }))
    }

    /// Combine with the generation record and the pending record.
    #[must_use]
    pub fn observation<'a>(
        &'a self,
        record: Option<&'a GenerationRecord>,
        pending: Option<&'a PendingGeneration>,
    ) -> BootObservation<'a> {
        BootObservation { deployment: &self.deployment, argument: self.generation.as_ref(), record, pending }
    }

    /// Path of the deployment below the physical root.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        Path::new(SYSROOT).join(self.deployment.path())
    }
}

/// Wait until the boot entries are mounted; false if they are not within `limit`. Early in a boot their file
/// system may not be mounted yet, and no event announces it.
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

/// Read the kernel arguments of this boot.
pub fn kernel_arguments() -> Result<KernelArguments, HostError> {
    let line = Path::new(COMMAND_LINE);
    let read = std::fs::read_to_string(line);
    Ok(KernelArguments::parse(&read.map_err(|error| HostError::io(FileOperation::Read, line, &error))?))
}

/// Find the deployment whose directory is the root directory. The links used by the boot entry are no
/// substitute: finalizing a new deployment replaces them.
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

/// Find the deployment that the boot entry's `ostree=` links to. Needed for a composefs root, where the
/// deployment's directory is not the root directory.
fn linked(sysroot: &Path, arguments: &KernelArguments) -> Option<DeploymentId> {
    let entry = arguments.value("ostree=")?;
    let target = std::fs::read_link(sysroot.join(entry.trim_start_matches('/'))).ok()?;
    let mut parts = target.iter().rev().map(|part| part.to_string_lossy());
    let (directory, _deploy, stateroot) = (parts.next()?, parts.next()?, parts.next()?);
    DeploymentId::from_directory(&stateroot, &directory)
}

fn generation(arguments: &KernelArguments) -> Option<GenerationId> {
    arguments.value(GENERATION_ARGUMENT).map(Into::into)
}

/// Open a deployment as it looks when booted: with the `/var` of its stateroot.
pub(crate) fn open_deployment(sysroot: &Path, id: &DeploymentId) -> Result<Root, HostError> {
    Root::with_var(&sysroot.join(id.path()), &sysroot.join(format!("ostree/deploy/{}/var", id.stateroot)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generation_is_read_from_the_kernel_arguments() {
        let generation = |line| generation(&KernelArguments::parse(line));
        let line = "BOOT_IMAGE=/x root=LABEL=root flameholder.generation=0a rw\n";
        assert_eq!(generation(line), Some("0a".into()));
        assert_eq!(generation("rw xflameholder.generation=1"), None);
    }

    #[test]
    fn deployment_is_found_by_the_link_of_the_boot_entry() {
        let sysroot = tempfile::tempdir().unwrap();
        let (commit, boot) = ("a".repeat(64), sysroot.path().join("ostree/boot.1/os/b"));
        std::fs::create_dir_all(&boot).unwrap();
        let target = format!("../../../deploy/os/deploy/{commit}.2");
        std::os::unix::fs::symlink(target, boot.join("0")).unwrap();
        let linked = |line| linked(sysroot.path(), &KernelArguments::parse(line));
        let found = linked("ro ostree=/ostree/boot.1/os/b/0");
        assert_eq!(found, Some(DeploymentId { stateroot: "os".into(), commit, serial: 2 }));
        assert_eq!(linked("ro ostree=/ostree/boot.0/os/b/0"), None);
    }
}
