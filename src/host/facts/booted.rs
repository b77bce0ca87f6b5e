//! Booted deployment, found without libostree: activation runs before libostree could work.
//!
//! After a soft reboot the kernel's command line is that of the deployment before, so it names neither the booted
//! deployment nor its generation.

mod boot_entries;
mod booted_metadata;

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use booted_metadata::DirectoryIdentity;

use crate::core::state::booted_state::{BootChoice, BootObservation};
use crate::core::state::pending::PendingGeneration;
use crate::core::state::record::GenerationRecord;
use crate::core::values::deployment::DeploymentId;
use crate::core::values::identifiers::GenerationId;
use crate::core::values::kernel_arguments::KernelArguments;
use crate::core::values::kernel_arguments::argument_skew::ArgumentSkew;
use crate::core::values::paths::GENERATION_ARGUMENT;
use crate::host::Root;
use crate::host::fs::error::{FileOperation, HostError};

const COMMAND_LINE: &str = "/proc/cmdline";

/// Created early in a boot through OSTree.
pub(crate) const BOOTED: &str = "/run/ostree-booted";

/// Directory of the boot entries, possibly on a separate file system.
const LOADER: &str = "/boot/loader";
/// Places of the boot entries: on a file system of their own, or in the sysroot.
const ENTRIES: [&str; 2] = ["/boot/loader/entries", "/sysroot/boot/loader/entries"];
/// Interval of checks for the boot entries.
const PACE: Duration = Duration::from_millis(100);

/// Mount point of the physical root on a system that booted through OSTree.
pub const SYSROOT: &str = "/sysroot";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootedDeployment {
    pub deployment: DeploymentId,
    /// Generation named by the boot entry's `flameholder.generation` argument.
    pub generation: Option<GenerationId>,
    /// Kernel arguments of its boot entry. `None` after a soft reboot if that cannot be read, as before `/boot` is
    /// mounted.
    pub entry: Option<KernelArguments>,
}

impl BootedDeployment {
    /// Find the booted deployment on a system that booted through OSTree, with a kernel that has these arguments.
    pub fn observe(running: &KernelArguments, soft_reboots: u32) -> Result<Option<Self>, HostError> {
        let sysroot = Path::new(SYSROOT);
        let deployment = identify(Path::new("/"), sysroot, running, soft_reboots)
            .map_err(|error| HostError::io(FileOperation::Read, sysroot, &error))?;
        let entry = |deployment: &DeploymentId| match soft_reboots {
            // The entry itself may have been replaced meanwhile: finalizing a new deployment does so.
            0 => Some(running.clone()),
            _ => boot_entries::arguments_of(deployment, sysroot, &ENTRIES.map(Path::new)),
        };
        match deployment {
            Some(deployment) => {
                let entry = entry(&deployment);
                let generation = entry.as_ref().and_then(generation);
                Ok(Some(Self { deployment, generation, entry }))
            }
            None if soft_reboots > 0 => Err(HostError::UnknownDeployment),
            None => Ok(None),
        }
    }

    /// Combine with the generation record and the pending record. Where the boot entry cannot be read, the generation
    /// is the one that either names for this very deployment.
    #[must_use]
    pub fn observation<'a>(
        &'a self,
        record: Option<&'a GenerationRecord>,
        pending: Option<&'a PendingGeneration>,
    ) -> BootObservation<'a> {
        let recorded =
            || record.filter(|record| record.names(&self.deployment)).map(|record| &record.generation);
        let finalized = || {
            pending
                .filter(|pending| pending.is_deployed_as(&self.deployment))
                .map(PendingGeneration::generation)
        };
        let argument = match &self.entry {
            Some(_) => self.generation.as_ref(),
            None => recorded().or_else(finalized),
        };
        // The boot entries tell something only where the deployment before is booted again. Early in a boot, their file
        // system may not be mounted yet.
        let is_base = pending.is_some_and(|pending| pending.staged.base == self.deployment);
        let choice = if is_base { self.choice() } else { BootChoice::Other };
        BootObservation { deployment: &self.deployment, argument, record, pending, choice }
    }

    /// Find out if this deployment is the default one. Before `/boot` is mounted this is unknown.
    #[must_use]
    pub fn choice(&self) -> BootChoice {
        match boot_entries::default(Path::new(SYSROOT), &ENTRIES.map(Path::new)) {
            Some(default) if default == self.deployment => BootChoice::Default,
            _ => BootChoice::Other,
        }
    }

    /// Compare the boot entry with the arguments of the running kernel. They differ after a soft reboot only.
    #[must_use]
    pub fn skew(&self, running: &KernelArguments) -> ArgumentSkew {
        self.entry.as_ref().map_or_else(ArgumentSkew::default, |entry| ArgumentSkew::between(entry, running))
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
        if Path::new(LOADER).exists() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(PACE);
    }
}

/// Read the kernel arguments of the running kernel.
pub fn kernel_arguments() -> Result<KernelArguments, HostError> {
    let line = Path::new(COMMAND_LINE);
    let read = std::fs::read_to_string(line);
    Ok(KernelArguments::parse(&read.map_err(|error| HostError::io(FileOperation::Read, line, &error))?))
}

/// Find the deployment in `sysroot` that is booted at `root`, by the first of these that is known:
///
/// 1. the root directory, which is the deployment's directory unless composefs provides it;
/// 2. `/etc`, which then is still the deployment's own, unless it is transient;
/// 3. libostree's metadata. libostree itself believes it alone, but after a soft reboot it stays that of the deployment
///    before until `ostree-boot-complete.service` has run, long after activation;
/// 4. the link in the kernel argument `ostree=`, before any soft reboot. Finalizing a new deployment replaces it.
fn identify(
    root: &Path,
    sysroot: &Path,
    running: &KernelArguments,
    soft_reboots: u32,
) -> io::Result<Option<DeploymentId>> {
    let deployments = deployment_directories(sysroot)?;
    let find = |below: &str, wanted: DirectoryIdentity| {
        let is_it = |path: &Path| path.symlink_metadata().is_ok_and(|found| identity(&found) == wanted);
        deployments.iter().find(|(path, _)| is_it(&path.join(below))).map(|(_, id)| id.clone())
    };
    if let Some(found) = find("", identity(&root.metadata()?)) {
        return Ok(Some(found));
    }
    let etc = root.join("etc").metadata().ok();
    if let Some(found) = etc.and_then(|etc| find("etc", identity(&etc))) {
        return Ok(Some(found));
    }
    Ok(match booted_metadata::backing_directory(root, soft_reboots) {
        Some(directory) => find("", directory),
        None if soft_reboots == 0 => boot_entries::linked(sysroot, running),
        None => None,
    })
}

fn generation(arguments: &KernelArguments) -> Option<GenerationId> {
    arguments.value(GENERATION_ARGUMENT).map(Into::into)
}

fn identity(found: &Metadata) -> DirectoryIdentity {
    (found.dev(), found.ino())
}

/// List the directories of all deployments, also of those without a boot entry.
fn deployment_directories(sysroot: &Path) -> io::Result<Vec<(PathBuf, DeploymentId)>> {
    let mut found = Vec::new();
    for stateroot in sysroot.join("ostree/deploy").read_dir()?.flatten() {
        let Ok(directories) = stateroot.path().join("deploy").read_dir() else { continue };
        let name = stateroot.file_name();
        found.extend(directories.flatten().filter_map(|directory| {
            let id = DeploymentId::from_directory(
                &name.to_string_lossy(),
                &directory.file_name().to_string_lossy(),
            );
            id.map(|id| (directory.path(), id))
        }));
    }
    Ok(found)
}

/// Open a deployment as it looks when booted: with the `/var` of its stateroot.
pub(crate) fn open_deployment(sysroot: &Path, id: &DeploymentId) -> Result<Root, HostError> {
    Root::with_var(&sysroot.join(id.path()), &sysroot.join(format!("ostree/deploy/{}/var", id.stateroot)))
}

/// Open another deployment of the booted stateroot, with the `/var` that is mounted: where that is a file system of its own,
/// the stateroot's directory is only what lies under it.
pub(crate) fn open_beside_booted(id: &DeploymentId) -> Result<Root, HostError> {
    Root::with_var(&Path::new(SYSROOT).join(id.path()), Path::new("/var"))
}

#[cfg(test)]
mod tests;
