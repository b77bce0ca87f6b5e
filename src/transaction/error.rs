//! Errors of plans and transactions.

use std::path::PathBuf;

use crate::core::config::settings::SettingsError;
use crate::core::plan::service_actions::NotLive;
use crate::core::state::blocked::BlockedTarget;
use crate::core::values::backoff::RetryClass;
use crate::core::values::causes::chain;
use crate::core::values::refusal::RefusalList;
use crate::host::HostError;
use crate::host::facts::tree_facts::FactsError;
use crate::host::mount_namespace::NamespaceError;
use crate::host::systemd::reboot_port::RebootError;
use crate::os::OsError;

use crate::transaction::engine::apply::ApplyError;
use crate::transaction::engine::recover::RecoveryError;
use crate::transaction::handover::HandoverError;
use crate::transaction::state::current::CurrentStateError;
use crate::transaction::state::objects::StoreLoadError;
use crate::transaction::state::{blocked, pending};
use crate::transaction::update::space::SpaceError;

/// Error of a plan or a transaction. Unless a variant says otherwise, nothing on the host has changed.
#[derive(Debug, thiserror::Error)]
pub enum TransactionError {
    /// The config is malformed or unsupported by the target.
    #[error("the configuration is refused: {0}")]
    Refused(#[from] RefusalList),
    /// Paths on the host prevent the change, such as a directory where the config has a file.
    #[error("the configuration cannot be applied here:{}", listed(.0))]
    Obstructed(Vec<String>),
    /// libostree's `/etc` merge would fail, so no deployment is made.
    #[error("/etc cannot be merged into the new deployment:{}", listed(.0))]
    EtcRefused(Vec<String>),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Current(#[from] CurrentStateError),
    #[error(transparent)]
    Store(#[from] StoreLoadError),
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    /// An interrupted change has to be recovered first; this command may not change anything.
    #[error("a change to {0} was interrupted, and is neither complete nor undone; run `flameholder recover`")]
    Interrupted(String),
    #[error(transparent)]
    Os(#[from] OsError),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(
        "no configuration is applied at {0}: there is no generation record; run `flameholder apply` first"
    )]
    NoGeneration(String),
    /// The record in the deployment's `/etc` names another deployment: libostree's merge copied it there.
    #[error(
        "deployment {0} is not a generation: its generation record names another deployment; run `flameholder apply` to make it one"
    )]
    ForeignDeployment(String),
    #[error(transparent)]
    Pending(#[from] pending::PendingLoadError),
    #[error(transparent)]
    BlockedUnreadable(#[from] blocked::BlockedLoadError),
    /// The target failed its boot check, or was rolled back from, and is not retried.
    #[error(
        "{} is blocked: {} (generation {}); apply another configuration, or unblock it with `flameholder retry`",
        .0.config, .0.reason, .0.generation
    )]
    Blocked(Box<BlockedTarget>),
    /// A new deployment would replace the rollback deployment while the booted generation may still need
    /// it.
    #[error(
        "generation {generation} is unconfirmed: its boot check may take {seconds} more seconds; try again then, or run `flameholder rollback`"
    )]
    Unconfirmed {
        generation: String,
        /// Time until the boot check times out.
        seconds: u64,
    },
    /// `/boot` is not mounted, so the default boot entry cannot be changed. Holds the seconds waited.
    #[error(
        "cannot change the boot entries: /boot/loader did not appear within {0} seconds; see `systemctl status boot.mount`"
    )]
    NoBootEntries(u64),
    /// The generation failed, and the deployment to roll back to no longer exists.
    #[error(
        "generation {generation} failed its boot check and cannot be rolled back: deployment {base} no longer exists; apply a configuration that works, or choose another entry in the boot menu"
    )]
    RollbackDeploymentGone {
        generation: String,
        /// Deployment that the generation was staged on.
        base: String,
    },
    /// A reboot for this generation left differences that only a reboot can remove: another one would end
    /// the same way.
    #[error(
        "generation {0} still needs a reboot, although the host was already rebooted for it; see `flameholder plan` and `flameholder verify`"
    )]
    RebootIneffective(String),
    /// Another program changes applied paths, or settings such as `umask` or a filesystem do not keep them.
    #[error("drift right after the configuration was applied: {}; see `flameholder verify`", .0.join(", "))]
    Drifted(Vec<String>),
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// `ostree admin finalize-staged` succeeded, but the new deployment lacks the generation's record.
    #[error(
        "`ostree admin finalize-staged` did not finalize generation {generation}: {} does not name it; see `journalctl -u ostree-finalize-staged.service`",
        path.display()
    )]
    NotFinalized {
        generation: String,
        /// Path of the record that the deployment should have.
        path: PathBuf,
    },
    /// The staged deployment is ours, but its pending record, which holds its configuration, is missing.
    #[error(
        "staged deployment {0} is not finalized: flameholder staged it, but its pending record is missing; the booted deployment boots again, apply the configuration there"
    )]
    PendingRecordMissing(String),
    /// Another program discarded or replaced the staged deployment.
    #[error("generation {0} is no longer staged; apply its configuration again")]
    NotStaged(String),
    /// ostree's own `ExecStop=` would finalize the deployment without its configuration.
    #[error(
        "ExecStop= of {unit} is {instead}, not `flameholder finalize`: the generation would boot without its configuration, so it stays staged and locked; install {unit}.d/50-flameholder.conf, run `systemctl daemon-reload`, and apply again"
    )]
    FinalizeDropInMissing {
        unit: &'static str,
        /// Current value of `ExecStop=`.
        instead: String,
    },
    /// The activation service did not write the configuration of a generation that booted without it.
    #[error(
        "generation {0} booted without its configuration, and flameholder-activate.service did not write it; see `journalctl -b -u flameholder-activate.service`"
    )]
    ConfigNotWritten(String),
    #[error(transparent)]
    Reboot(#[from] RebootError),
    #[error(transparent)]
    NoSpace(#[from] SpaceError),
    #[error(transparent)]
    NotLive(#[from] NotLive),
    #[error("the sysroot {0} has no deployment; install an operating system into it first")]
    NoDeployment(String),
    #[error("the stateroot {0} has only one deployment, so there is none to roll back to")]
    NoPreviousDeployment(String),
    #[error(transparent)]
    Handover(#[from] HandoverError),
    /// The stateroot has other deployments, but none with a record of its own.
    #[error(
        "no other deployment of the stateroot {0} is a generation to roll back to; to boot a foreign deployment, choose it in the boot menu"
    )]
    NoPreviousGeneration(String),
}

impl TransactionError {
    /// Return true if another program holds a lock or runs an operation, so that a later retry may succeed.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        match self {
            Self::Os(error) => matches!(error, OsError::Busy { .. } | OsError::RpmOstreedBusy { .. }),
            Self::Host(error) => matches!(error, HostError::Locked { .. }),
            Self::Handover(error) => error.is_busy(),
            _ => false,
        }
    }

    /// Return the condition for a retry to succeed: time, a repair of the host, or another config.
    #[must_use]
    pub fn retry_class(&self) -> RetryClass {
        match self {
            Self::Refused(_)
            | Self::Obstructed(_)
            | Self::EtcRefused(_)
            | Self::Settings(_)
            | Self::Blocked(_) => RetryClass::Configuration,
            Self::Unconfirmed { .. } | Self::NotStaged(_) => RetryClass::Time,
            error if error.is_busy() => RetryClass::Time,
            Self::Os(OsError::Pull { reason, .. }) if reason.is_transient() => RetryClass::Time,
            _ => RetryClass::Repair,
        }
    }

    /// Return the error and its causes on one line, outermost first.
    #[must_use]
    pub fn chain(&self) -> String {
        // The message already lists all refusals, so its source adds nothing.
        if matches!(self, Self::Refused(_)) { self.to_string() } else { chain(self) }
    }
}

impl From<FactsError> for TransactionError {
    fn from(error: FactsError) -> Self {
        match error {
            FactsError::Host(error) => Self::Host(error),
            FactsError::Refused(refusals) => Self::Refused(refusals),
        }
    }
}

fn listed(reasons: &[String]) -> String {
    reasons.iter().map(|reason| format!("\n  {reason}")).collect()
}
