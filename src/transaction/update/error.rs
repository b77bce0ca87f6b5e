//! Errors of an update, a rollback or a finalization.

use std::path::PathBuf;

use crate::core::state::blocked::BlockedTarget;
use crate::core::values::backoff::RetryClass;
use crate::core::values::identifiers::{ConfigName, GenerationId};
use crate::host::mount_namespace::NamespaceError;
use crate::transaction::update::space::SpaceError;

/// Error of an update. Unless a variant says otherwise, nothing on the host has changed.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// The target failed its boot check, or was rolled back from, and is not retried.
    #[error(
        "{} is blocked: {}{}; apply another configuration, or unblock it with `flameholder retry`",
        .0.config, .0.reason, of_generation(.0)
    )]
    Blocked(Box<BlockedTarget>),
    /// ostree's own `ExecStop=` would finalize the deployment without its configuration.
    #[error(
        "ExecStop= of {unit} is {instead}, not `flameholder finalize`: the generation would boot without its configuration, so it stays staged and locked; install {unit}.d/50-flameholder.conf, run `systemctl daemon-reload`, and apply again"
    )]
    FinalizeDropInMissing {
        unit: &'static str,
        /// Current value of `ExecStop=`.
        instead: String,
    },
    /// A new deployment would replace the rollback deployment while the booted generation may still need
    /// it.
    #[error(
        "generation {generation} is unconfirmed: its boot check may take {seconds} more seconds; try again then, or run `flameholder rollback`"
    )]
    Unconfirmed {
        generation: GenerationId,
        /// Time until the boot check times out.
        seconds: u64,
    },
    /// The new deployment would boot without an agent: nothing would activate its generation, start the workload that waits for
    /// that, check the boot or roll back.
    #[error(
        "the OS image {0} has no agent, and the one of this host is in the image that it runs: the new deployment would boot without an agent, and its workload would not start; add the agent to the image, or, to remove the agent, change the image with `rpm-ostree rebase` or `bootc switch`"
    )]
    AgentMissing(String),
    /// Another program discarded or replaced the staged deployment.
    #[error("generation {0} is no longer staged; apply its configuration again")]
    NotStaged(GenerationId),
    /// No pending record, or that of another config.
    #[error("no generation of {0} is staged; apply this configuration again")]
    ConfigNotStaged(ConfigName),
    /// `ostree admin finalize-staged` succeeded, but the new deployment lacks the generation's record.
    #[error(
        "`ostree admin finalize-staged` did not finalize generation {generation}: {} does not name it; see `journalctl -u ostree-finalize-staged.service`",
        path.display()
    )]
    NotFinalized {
        generation: GenerationId,
        /// Path of the record that the deployment should have.
        path: PathBuf,
    },
    /// The staged deployment is ours, but its pending record, which holds its configuration, is missing.
    #[error(
        "staged deployment {0} is not finalized: flameholder staged it, but its pending record is missing; the booted deployment boots again, apply the configuration there"
    )]
    PendingRecordMissing(String),
    #[error(transparent)]
    NoSpace(#[from] SpaceError),
    #[error("the stateroot {0} has only one deployment, so there is none to roll back to")]
    NoPreviousDeployment(String),
    /// The stateroot has other deployments, but none with a record of its own.
    #[error(
        "no other deployment of the stateroot {0} is a generation to roll back to; to boot a foreign deployment, choose it in the boot menu"
    )]
    NoPreviousGeneration(String),
    /// Another program changes applied paths, or settings such as `umask` or a filesystem do not keep them.
    #[error("drift right after the configuration was applied: {}; see `flameholder verify`", .0.join(", "))]
    Drifted(Vec<String>),
    /// The host, or its rules of disruption, changed after a live update was prepared.
    #[error(
        "{0} was prepared as a live update and needs a reboot now, since the host or its settings changed meanwhile; it is prepared again"
    )]
    NotLiveAnyMore(ConfigName),
    /// The host has drifted before an update, which would undo the local changes.
    #[error(
        "managed paths have local changes, which the update would undo: {}; restore them (`flameholder verify` shows how they differ), or apply over them: `touch /run/machine-config-daemon-force`",
        .0.join(", ")
    )]
    LocalChanges(Vec<String>),
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// A reboot for this generation left differences that only a reboot can remove: another one would end
    /// the same way.
    #[error(
        "generation {0} still needs a reboot, although the host was already rebooted for it; see `flameholder plan` and `flameholder verify`"
    )]
    RebootIneffective(GenerationId),
}

/// Return the generation in parentheses; nothing where none was made.
fn of_generation(blocked: &BlockedTarget) -> String {
    blocked.generation.as_ref().map_or_else(String::new, |generation| format!(" (generation {generation})"))
}

impl UpdateError {
    pub(crate) fn retry_class(&self) -> RetryClass {
        match self {
            Self::Blocked(_) => RetryClass::Configuration,
            Self::Unconfirmed { .. }
            | Self::NotStaged(_)
            | Self::ConfigNotStaged(_)
            | Self::NotLiveAnyMore(_) => RetryClass::Time,
            Self::NotFinalized { .. }
            | Self::AgentMissing(_)
            | Self::FinalizeDropInMissing { .. }
            | Self::PendingRecordMissing(_)
            | Self::NoSpace(_)
            | Self::NoPreviousDeployment(_)
            | Self::NoPreviousGeneration(_)
            | Self::Drifted(_)
            | Self::LocalChanges(_)
            | Self::Namespace(_)
            | Self::RebootIneffective(_) => RetryClass::Repair,
        }
    }
}
