//! A host taken over from the machine-config-daemon, and given back to it.
//!
//! Nothing is configured by either: what runs gets a record, or loses it. What the machine-config-daemon keeps of what
//! stood at a path before it becomes ours, and again its own.

pub mod adopt;
pub mod installation;
pub mod release;

use crate::transaction::state::interrupted;
use std::io;
use std::path::Path;

use crate::core::plan::Drift;
use crate::core::values::names::ManagedPath;
use crate::host::Root;
use crate::host::facts::{boot, processes};
use crate::host::fs::lock::HostLock;

use crate::transaction::TransactionError;

/// The program that is replaced.
const MACHINE_CONFIG_DAEMON: &str = "machine-config-daemon";
/// Ourselves, and what the daemon among us is called with.
const FLAMEHOLDER: &str = "flameholder";
const DAEMON: &str = "daemon";

/// Why a host is not taken over, or not given back. It is as it was before.
#[derive(Debug, thiserror::Error)]
pub enum HandoverError {
    /// Both would change the host.
    #[error(
        "the machine-config-daemon runs here as process {0}; have the cluster run it on this node no longer, and try again once it is gone"
    )]
    McdRuns(u32),
    /// Our daemon would go on with it.
    #[error(
        "flameholder's daemon runs as process {0}; end it first: systemctl disable --now flameholder-daemon.service"
    )]
    DaemonRuns(u32),
    /// Nobody can tell.
    #[error("looking for programs that change this host")]
    Processes(#[source] io::Error),
    /// The machine-config-daemon was never here, or got nowhere.
    #[error(
        "there is nothing to adopt: the machine-config-daemon left no configuration in /etc/machine-config-daemon/currentconfig; run `flameholder apply` or the daemon instead"
    )]
    NothingApplied,
    /// It says of no file or unit what it should be, so all of them would be nobody's.
    #[error(
        "{0} in /etc/machine-config-daemon/currentconfig has no files and no units, which a first boot leaves so, and /etc/mcs-machine-config-content.json does not have them either; put the whole configuration there, or let the machine-config-daemon apply one"
    )]
    ConfigIncomplete(String),
    /// An update is under way, or failed.
    #[error(
        "the host does not run the image of {config}, {wanted}, but {runs}; let the machine-config-daemon finish its update first"
    )]
    OtherImage {
        /// The configuration.
        config: String,
        /// What it says.
        wanted: String,
        /// What runs.
        runs: String,
    },
    /// The same for packages.
    #[error(
        "what boots does not have the packages of {0}; let the machine-config-daemon finish its update first"
    )]
    OtherPackages(String),
    /// The same for kernel arguments, which have to be there once each and in that order.
    #[error(
        "the boot entry does not have the kernel arguments of {config}, each as often and in the order that it lists: {arguments}; let the machine-config-daemon finish its update, or set them so with `rpm-ostree kargs` and reboot"
    )]
    OtherKernelArguments {
        /// The configuration.
        config: String,
        /// Its arguments.
        arguments: String,
    },
    /// It compares names, not images.
    #[error(
        "{config} names the image {wanted}, and the host runs {runs}: the machine-config-daemon takes that for another one; rebase to that name first"
    )]
    OtherName {
        /// The configuration.
        config: String,
        /// What it says.
        wanted: String,
        /// What runs.
        runs: String,
    },
    /// Somebody changed it.
    #[error("the host is not as {config} says:{}\n{way_out}", listed(deviations))]
    Drifted {
        /// The configuration.
        config: String,
        /// What deviates.
        deviations: Vec<Drift>,
        /// What to do.
        way_out: &'static str,
    },
    /// Something is on its way.
    #[error(
        "generation {0} is staged or was not judged yet; let it settle, or go back with `flameholder rollback`"
    )]
    Pending(String),
    /// The other one would find it changed for ever.
    #[error(
        "the machine-config-daemon cannot have files with `append`: {0}; apply a configuration without them first"
    )]
    Appended(String),
}

impl HandoverError {
    /// Whether somebody is at work, and may be done later.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self, Self::McdRuns(_) | Self::DaemonRuns(_) | Self::Pending(_))
    }
}

fn listed(deviations: &[Drift]) -> String {
    deviations.iter().map(|drift| format!("\n  {} {}", drift.path, drift.kind)).collect()
}

/// Refuses while the machine-config-daemon runs.
pub fn ensure_mcd_stopped() -> Result<(), TransactionError> {
    let found = processes::named(MACHINE_CONFIG_DAEMON).map_err(HandoverError::Processes)?;
    match found.first() {
        Some(other) => Err(HandoverError::McdRuns(other.pid).into()),
        None => Ok(()),
    }
}

fn ensure_daemon_stopped() -> Result<(), TransactionError> {
    let found = processes::named(FLAMEHOLDER).map_err(HandoverError::Processes)?;
    let is_daemon = |arguments: &[String]| arguments.iter().any(|argument| argument == DAEMON);
    match found.iter().find(|found| is_daemon(&found.arguments)) {
        Some(daemon) => Err(HandoverError::DaemonRuns(daemon.pid).into()),
        None => Ok(()),
    }
}

/// The host, locked and with nothing left of an interrupted change; and the ID of this boot.
fn lock_host() -> Result<(Root, HostLock, String), TransactionError> {
    let root = Root::open(Path::new("/"))?;
    let lock = HostLock::take(&root)?;
    let boot_id = boot::boot_id();
    interrupted::recover_first(&root, &boot_id)?;
    Ok((root, lock, boot_id))
}

/// Where the image ships what belongs at `path`.
fn shipped(path: &ManagedPath) -> Option<ManagedPath> {
    path.is_within("/etc").then(|| ManagedPath::constant(&format!("/usr{path}")))
}
