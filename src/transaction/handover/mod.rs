//! Handover between the machine-config-daemon (MCD) and this agent: `flameholder adopt` and `flameholder
//! release`. A host that Ignition installed is adopted in the same way.
//!
//! Neither changes the configuration of the host. Adopting writes a generation record for the booted
//! deployment and takes over MCD's copies of original files as pre-images; releasing removes the record and
//! gives the copies back.

pub mod adopt;
pub mod installation;
pub mod other_agents;
pub mod release;

use std::io;

use crate::core::plan::drift::Drift;
use crate::core::values::identifiers::{ConfigName, GenerationId};
use crate::core::values::names::ManagedPath;
use crate::host::facts::processes;
use crate::transaction::TransactionError;

/// Process name of MCD.
const MACHINE_CONFIG_DAEMON: &str = "machine-config-daemon";
/// Process name and subcommand of our daemon.
const FLAMEHOLDER: &str = "flameholder";
const DAEMON: &str = "daemon";

/// Reason against adopting or releasing a host, which stays unchanged.
#[derive(Debug, thiserror::Error)]
pub enum HandoverError {
    /// MCD would keep changing the host.
    #[error(
        "the machine-config-daemon is running as process {0}; stop the cluster from running it on this node, and try again once it has ended"
    )]
    McdRuns(u32),
    /// Our daemon would keep managing the host after its release.
    #[error(
        "flameholder's daemon is running as process {0}; stop it first: systemctl disable --now flameholder-daemon.service"
    )]
    DaemonRuns(u32),
    /// The process list cannot be read.
    #[error("reading the process list to look for a running daemon")]
    Processes(#[source] io::Error),
    /// MCD never applied a config on this host.
    #[error(
        "there is nothing to adopt: the machine-config-daemon left no configuration in /etc/machine-config-daemon/currentconfig; give the config with which Ignition installed the host with --config, or run `flameholder apply` or the daemon instead"
    )]
    NothingApplied,
    /// The config of the installation is given for a host that is managed.
    #[error(
        "flameholder manages this host already, with {0}; change it with `flameholder apply`, without --config"
    )]
    Managed(ConfigName),
    /// The config of the installation is given for a host that MCD configured since.
    #[error(
        "{0} in /etc/machine-config-daemon/currentconfig was applied since the installation; leave out --config to adopt the host with it"
    )]
    AppliedSince(ConfigName),
    /// The config has no files or units, so none would be managed after adoption.
    #[error(
        "{0} in /etc/machine-config-daemon/currentconfig has no files and no units, as after a first boot, and /etc/mcs-machine-config-content.json does not have them either; write the complete configuration to the latter, or let the machine-config-daemon apply one"
    )]
    ConfigIncomplete(ConfigName),
    /// An OS update of MCD is in progress, or failed.
    #[error(
        "{config} has the image {desired}, but the booted deployment has {runs}; let the machine-config-daemon finish its update first"
    )]
    OtherImage {
        config: ConfigName,
        /// Image in the config.
        desired: String,
        /// Image of the booted deployment.
        runs: String,
    },
    /// A package change of MCD is in progress, or failed.
    #[error(
        "the booted deployment does not have the packages of {0}; let the machine-config-daemon finish its update first"
    )]
    OtherPackages(ConfigName),
    /// The boot entry must have each argument as often and in the order that the config lists them; MCD
    /// would otherwise see drift.
    #[error(
        "the boot entry lacks kernel arguments of {config}, or has them in another number or order than: {arguments}; let the machine-config-daemon finish its update, or set them with `rpm-ostree kargs` and reboot"
    )]
    OtherKernelArguments {
        config: ConfigName,
        /// Kernel arguments in the config, separated by spaces.
        arguments: String,
    },
    /// MCD compares image names, not digests, and would rebase the host.
    #[error(
        "{config} names the image {desired}, but the booted deployment has {runs}: the machine-config-daemon compares names and would rebase; rebase to {desired} first"
    )]
    OtherName {
        config: ConfigName,
        /// Image in the config.
        desired: String,
        /// Image name of the booted deployment.
        runs: String,
    },
    /// Files or settings differ from the config.
    #[error("the host has drifted from {config}:{}\n{way_out}", listed(drift))]
    Drifted {
        config: ConfigName,
        drift: Vec<Drift>,
        /// Advice, the last line of the message.
        way_out: &'static str,
    },
    /// An update is staged, or its generation is unconfirmed.
    #[error(
        "generation {0} is staged or unconfirmed; wait until it is confirmed, or run `flameholder rollback`"
    )]
    Pending(GenerationId),
    /// MCD would see permanent drift: its Ignition version does not know `append`.
    #[error(
        "the machine-config-daemon does not support files with `append`: {0}; apply a configuration without them first"
    )]
    Appended(String),
}

impl HandoverError {
    /// Return true if another program or update has to end first, so that a later retry may succeed.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self, Self::McdRuns(_) | Self::DaemonRuns(_) | Self::Pending(_))
    }
}

fn listed(drift: &[Drift]) -> String {
    drift.iter().map(|drift| format!("\n  {drift}")).collect()
}

/// Fail while MCD is running.
pub fn ensure_mcd_stopped() -> Result<(), TransactionError> {
    let found = processes::processes_named(MACHINE_CONFIG_DAEMON).map_err(HandoverError::Processes)?;
    match found.first() {
        Some(other) => Err(HandoverError::McdRuns(other.pid).into()),
        None => Ok(()),
    }
}

fn ensure_daemon_stopped() -> Result<(), TransactionError> {
    let found = processes::processes_named(FLAMEHOLDER).map_err(HandoverError::Processes)?;
    let is_daemon = |arguments: &[String]| arguments.iter().any(|argument| argument == DAEMON);
    match found.iter().find(|found| is_daemon(&found.arguments)) {
        Some(daemon) => Err(HandoverError::DaemonRuns(daemon.pid).into()),
        None => Ok(()),
    }
}

/// Return the path below `/usr/etc` at which the image ships `path`.
fn shipped(path: &ManagedPath) -> Option<ManagedPath> {
    path.is_within("/etc").then(|| ManagedPath::constant(&format!("/usr{path}")))
}
