//! Why a transaction did not happen.

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

/// Every way in which a plan or a transaction ends early. Unless a variant says otherwise, the
/// host is as it was before.
#[derive(Debug, thiserror::Error)]
pub enum TransactionError {
    /// The desired configuration is malformed or does not fit the target.
    #[error("the configuration is refused: {0}")]
    Refused(#[from] RefusalList),
    /// The target cannot become what is desired.
    #[error("the configuration cannot be applied here:{}", listed(.0))]
    Obstructed(Vec<String>),
    /// libostree would not merge `/etc` into the new deployment, which is not made then.
    #[error("/etc cannot be merged into the new deployment:{}", listed(.0))]
    EtcRefused(Vec<String>),
    /// The host failed.
    #[error(transparent)]
    Host(#[from] HostError),
    /// What was applied last cannot be read.
    #[error(transparent)]
    Current(#[from] CurrentStateError),
    /// The store of what generations have outside `/etc` failed.
    #[error(transparent)]
    Store(#[from] StoreLoadError),
    /// The change failed.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// An interrupted change is in the way.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    /// An interrupted change is open, and this command changes nothing.
    #[error(
        "a change to {0} was interrupted, and what is there is neither as before nor as it was to be; run `flameholder recover`"
    )]
    Interrupted(String),
    /// The operating system's side failed.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The agent's own settings cannot be understood.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// Nothing was applied here yet.
    #[error("nothing was applied at {0}: it has no generation record; run `flameholder apply` first")]
    NoGeneration(String),
    /// The record names another deployment than the one it was found in.
    #[error(
        "deployment {0} was not made by flameholder: the record in it names another one; run `flameholder apply` to make a generation of it"
    )]
    ForeignDeployment(String),
    /// What is pending cannot be used.
    #[error(transparent)]
    Pending(#[from] pending::PendingLoadError),
    /// The held target cannot be used.
    #[error(transparent)]
    BlockedUnreadable(#[from] blocked::BlockedLoadError),
    /// The target was left before, and is not gone to again by itself.
    #[error(
        "{} is held: {} (generation {}); apply another configuration, or release it with `flameholder retry`",
        .0.config, .0.reason, .0.generation
    )]
    Blocked(Box<BlockedTarget>),
    /// What runs was not judged yet, and the way back from it would be lost.
    #[error(
        "generation {generation} runs, and is to show that it is healthy for up to {seconds} seconds more; try again then, or go back with `flameholder rollback`"
    )]
    Unconfirmed {
        /// The generation.
        generation: String,
        /// How long it may take.
        seconds: u64,
    },
    /// What boots next cannot be changed.
    #[error(
        "the boot entries are not there: /boot/loader did not appear within {0} seconds; see `systemctl status boot.mount`"
    )]
    NoBootEntries(u64),
    /// The generation is to be left, and what it replaced is gone.
    #[error(
        "generation {generation} is not healthy, and there is no way back: deployment {base} is gone; apply a configuration that works, or choose another entry at the boot menu"
    )]
    RollbackDeploymentGone {
        /// The generation.
        generation: String,
        /// What it replaced.
        base: String,
    },
    /// What runs since the reboot that was for it would have to be rebooted again.
    #[error(
        "generation {0} differs from what runs in what only a reboot changes, although the host was rebooted for it; see `flameholder plan` and `flameholder verify`"
    )]
    RebootIneffective(String),
    /// What was just applied is not what is there.
    #[error("what was applied does not stay as it is: {}; see `flameholder verify`", .0.join(", "))]
    Drifted(Vec<String>),
    /// A mount namespace is needed and cannot be had.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// libostree ended without an error, and the generation does not boot next.
    #[error(
        "libostree did not finalize generation {generation}: {} does not name it; see the journal of ostree-finalize-staged.service",
        path.display()
    )]
    NotFinalized {
        /// The generation.
        generation: String,
        /// Where its record should be.
        path: PathBuf,
    },
    /// Nobody knows any more what our staged deployment was to become.
    #[error(
        "the staged deployment {0} is not finalized: it was staged by flameholder, and its configuration is not pending any more; the system that runs boots again, apply the configuration there"
    )]
    PendingRecordMissing(String),
    /// Somebody discarded or replaced what was staged.
    #[error("generation {0} is not staged any more; apply its configuration again")]
    NotStaged(String),
    /// The host would shut down without binding it.
    #[error(
        "{unit} runs {instead} when it is stopped, and not `flameholder finalize`: the generation would boot without its configuration, so it is staged and not armed; install {unit}.d/50-flameholder.conf, run `systemctl daemon-reload`, and apply again"
    )]
    FinalizeDropInMissing {
        /// libostree's unit.
        unit: &'static str,
        /// What it runs.
        instead: String,
    },
    /// A deployment of ours runs without its configuration.
    #[error(
        "generation {0} runs without its configuration, which flameholder-activate.service should have bound; see its journal"
    )]
    ConfigNotWritten(String),
    /// The host does not reboot.
    #[error(transparent)]
    Reboot(#[from] RebootError),
    /// There is no room for the deployment.
    #[error(transparent)]
    NoSpace(#[from] SpaceError),
    /// The change needs something that cannot be had while the host runs.
    #[error(transparent)]
    NotLive(#[from] NotLive),
    /// There is no deployment to build on.
    #[error("the sysroot {0} has no deployment; install an operating system into it first")]
    NoDeployment(String),
    /// There is no deployment to go back to.
    #[error("the stateroot {0} has only one deployment, so there is none to roll back to")]
    NoPreviousDeployment(String),
    /// The host is not taken over, or not given back.
    #[error(transparent)]
    Handover(#[from] HandoverError),
    /// No other deployment is a generation.
    #[error(
        "no other deployment of the stateroot {0} is a generation to go back to; to boot one that is none, choose it at the boot menu"
    )]
    NoPreviousGeneration(String),
}

impl TransactionError {
    /// Whether somebody else is at work: the same may succeed once they are done.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        match self {
            Self::Os(error) => matches!(error, OsError::Busy { .. } | OsError::RpmOstreedBusy { .. }),
            Self::Host(error) => matches!(error, HostError::Locked { .. }),
            Self::Handover(error) => error.is_busy(),
            _ => false,
        }
    }

    /// What has to change before the same can succeed.
    #[must_use]
    pub fn cure(&self) -> RetryClass {
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

    /// The error and its causes in one line, outermost first.
    #[must_use]
    pub fn chain(&self) -> String {
        // The refusals are the message already.
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
