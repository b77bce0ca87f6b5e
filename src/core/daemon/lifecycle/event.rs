//! Input of the daemon's state machine.

use serde::{Deserialize, Serialize};

use super::{BlockedConfig, ConfigRef, DaemonProblem, TrustFailure};
use crate::core::daemon::grant::GrantDelay;
use crate::core::pinned_images::pin_state::PinState;
use crate::core::plan::remaining_work::RemainingWork;
use crate::core::trust::document::TrustVersion;

/// Input of the state machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DaemonEvent {
    /// The source named a desired config.
    DesiredChanged(ConfigRef),
    /// The source was read, and desires no config: cause and way out.
    NoDesiredConfig(String),
    /// The host was observed.
    Observed(HostObservation),
    /// The desired config was fetched.
    Fetched,
    /// Planning and staging are done, and no reboot policy has to grant the rest.
    Prepared(RemainingWork),
    /// Planning and staging are done; the reboot policy has to grant a disruption.
    PreparedUnderPolicy(RemainingWork),
    /// The reboot policy grants the disruption.
    Granted,
    /// The reboot policy does not grant the disruption yet.
    GrantDelayed(GrantDelay),
    /// The grant of an update has ended, and its slot is released.
    GrantEnded,
    /// The hooks of notifications have run.
    HooksNotified,
    /// The node is drained.
    Drained,
    /// The daemon's own drain waits for something, which it names.
    DrainDelayed(String),
    /// The daemon's own drain took too long, and is tried again later.
    DrainGivenUp(GrantDelay),
    /// The live update is applied.
    Applied,
    /// The staged deployment is unlocked.
    Unlocked,
    /// Inhibitor locks delay the reboot.
    Inhibited {
        /// Names of their holders.
        by: String,
    },
    /// logind accepted the reboot.
    RebootAccepted,
    /// Verification found no drift.
    Verified,
    /// Verification found drift.
    Drifted {
        /// Differing paths or settings.
        reason: String,
    },
    /// The node is uncordoned.
    Uncordoned,
    /// The daemon's own uncordon fails, for this reason, and is repeated.
    UncordonDelayed(String),
    /// The current command failed.
    Failed(DaemonProblem),
    /// The delay of a [`DaemonCommand::Wait`](super::DaemonCommand::Wait) has passed.
    TimerExpired,
    /// A managed file changed on disk.
    FilesChanged,
    /// State outside the managed files changed: force file, blocked target, boot check.
    StateChanged,
    /// Trust material is applied; without its version, where a part of it is not available yet.
    TrustApplied(Option<TrustVersion>),
    /// Trust material cannot be applied.
    TrustFailed(TrustFailure),
    /// The kubelet was restarted, to read a new CA of the API server.
    KubeletRestarted,
    /// Images of the pinned image sets were looked for, pulled or pinned.
    PinsChanged(PinState),
    /// The daemon was asked to stop.
    Stop,
}

/// Observation of the host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostObservation {
    /// Current config; `None` where nothing was applied.
    pub current: Option<ConfigRef>,
    pub boot_check: BootCheckState,
    /// Blocked target.
    pub blocked: Option<BlockedConfig>,
    /// True if the force file exists.
    pub is_forced: bool,
    /// Reason why the last shutdown did not finalize the staged deployment.
    pub finalize_failure: Option<String>,
}

/// Boot check of the booted generation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BootCheckState {
    /// The boot check passed, or none was due.
    #[default]
    Confirmed,
    /// The boot check is still running.
    Unconfirmed {
        /// Health checks that have not passed yet.
        failed_checks: Option<String>,
    },
    /// The generation is rejected, and the reboot into the deployment before it is outstanding.
    RollingBack {
        /// Reason for the rollback.
        reason: String,
    },
    /// The boot check failed, and the generation is not rolled back.
    Unhealthy {
        /// Health checks that failed.
        failed_checks: String,
    },
}
