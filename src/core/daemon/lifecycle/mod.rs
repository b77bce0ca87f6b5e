//! State machine of the daemon: phases, events and commands, from observing the host over drain, staging and
//! reboot to done. [`Lifecycle::step`] is a total function of state and event. A phase's commands follow from
//! the phase alone, so a daemon that was killed recovers by observing the host.

mod disruption;
mod event;
mod problem;
mod step;

pub use event::{BootCheckState, DaemonEvent, HostObservation};
pub use problem::{DaemonProblem, ProblemClass, TrustFailure};
use serde::{Deserialize, Serialize};

use crate::core::daemon::grant::{GrantDelay, GrantWait};
use crate::core::pinned_images::pin_state::PinState;
use crate::core::state::blocked::BlockedTarget;
use crate::core::state::reboot_grant::RebootGrant;
use crate::core::state::record::GenerationRecord;
use crate::core::trust::document::TrustVersion;
use crate::core::values::identifiers::{ConfigDigest, ConfigName};

/// Config that a source refers to, such as the desired config of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigRef {
    /// Name of the `MachineConfig`.
    pub config: ConfigName,
    /// Image of on-cluster layering, used in place of the config's `osImageURL`.
    pub image: Option<String>,
    /// Digest of the configuration document (`sha256:…`), set where equal names may have different contents.
    pub digest: Option<ConfigDigest>,
}

impl ConfigRef {
    /// Return the config of a generation's record.
    #[must_use]
    pub fn of(record: &GenerationRecord) -> Self {
        let GenerationRecord { config, layered_image, config_hash, .. } = record;
        Self { config: config.clone(), image: layered_image.clone(), digest: Some(config_hash.clone()) }
    }

    /// Return the config that is blocked.
    #[must_use]
    pub fn of_blocked(target: &BlockedTarget) -> Self {
        let BlockedTarget { config, layered_image, config_hash, .. } = target;
        Self { config: config.clone(), image: layered_image.clone(), digest: Some(config_hash.clone()) }
    }

    /// Return the config that a grant is for.
    #[must_use]
    pub fn of_grant(grant: &RebootGrant) -> Self {
        let RebootGrant { config, layered_image, config_hash, .. } = grant;
        Self { config: config.clone(), image: layered_image.clone(), digest: config_hash.clone() }
    }

    /// Return true if both refer to the same config. The digest is compared only if both have one.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let digests = self.digest.as_ref().zip(other.digest.as_ref());
        self.config == other.config
            && self.image == other.image
            && digests.is_none_or(|(one, other)| one == other)
    }
}

/// State of the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lifecycle {
    pub phase: DaemonPhase,
    /// Desired config; `None` until the source was read.
    pub desired: Option<ConfigRef>,
    /// Current config; `None` until the host was observed, and where nothing was applied.
    pub current: Option<ConfigRef>,
    /// Blocked target: not retried until the desired config changes or `flameholder retry` releases it.
    pub blocked: Option<BlockedConfig>,
    /// True if the force file exists: the desired config is then applied again, even if it is the current
    /// config or the blocked target.
    pub is_forced: bool,
    /// Reason why the last shutdown did not finalize the staged deployment.
    pub finalize_failure: Option<String>,
    /// Reason why the source desires no config, and the way out; `None` while it desires one or was not read.
    pub undesired: Option<String>,
    /// Number of failed attempts in a row.
    pub failures: u32,
    /// True if an operator asked for another observation while work ran that must not be interrupted: the host is
    /// observed again at its end.
    pub observes_again: bool,
    /// Version of the trust material that was applied last; `None` until one was.
    pub trust: Option<TrustVersion>,
    /// Failure to apply newer trust material. Updates go on nevertheless.
    pub trust_failure: Option<TrustFailure>,
    /// State of the pinned image sets; `None` until the source named them. Updates do not depend on it.
    pub pins: Option<PinState>,
    /// Subject for which the daemon's own drain waits, or reason why its uncordon fails.
    pub drain_wait: Option<String>,
}

/// Config that is blocked after a rollback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedConfig {
    /// Desired config at the time of the rollback.
    pub desired: ConfigRef,
    /// Reason for the rollback.
    pub reason: String,
}

/// Phase of the daemon, as status, metrics and journal name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DaemonPhase {
    /// Recover from an interrupted change or boot, and read the state of the host.
    Observing,
    /// Wait for the source to name a desired config.
    Idle,
    /// Fetch the desired config from the source.
    Fetching { target: ConfigRef },
    /// Plan, pull the image and stage the deployment, all without effect on the workload.
    Preparing { target: ConfigRef },
    /// Wait for everything that the reboot policy demands before the host is disrupted: a window, a slot, hooks.
    AwaitingGrant {
        target: ConfigRef,
        /// Action after the drain.
        next: AfterDrain,
        /// Wait for the next request; `None` before the first was answered.
        wait: Option<GrantDelay>,
        /// True while the grant is requested.
        is_requested: bool,
    },
    /// Wait until the cluster has cordoned and drained the node.
    Draining {
        target: ConfigRef,
        /// Action after the drain.
        next: AfterDrain,
        /// True if the drain exceeded its deadline and is reported as failed.
        is_overdue: bool,
    },
    /// Apply a live update to the running system.
    Applying { target: ConfigRef },
    /// Unlock the staged deployment, so that the next shutdown finalizes it.
    Unlocking { target: ConfigRef },
    /// Ask logind for the reboot.
    Rebooting {
        target: ConfigRef,
        /// Names of the inhibitor locks that delay the reboot.
        inhibited_by: Option<String>,
    },
    /// Wait for the shutdown of the host.
    ShuttingDown { target: ConfigRef },
    /// Wait for the boot check of an unconfirmed generation.
    CheckingBoot {
        /// Health checks that have not passed yet.
        failed_checks: Option<String>,
    },
    /// Wait for the reboot into the deployment before a rejected generation.
    RollingBack {
        /// Reason for the rollback.
        reason: String,
    },
    /// Compare the host with the record of the current config, in search of drift.
    Verifying,
    /// Wait until the cluster has uncordoned the node.
    Uncordoning {
        /// True if uncordoning exceeded its deadline and is reported as failed.
        is_overdue: bool,
    },
    /// The desired config is applied and verified.
    Done,
    /// Drift: managed files differ from the record.
    Drifted {
        /// Differing paths or settings.
        reason: String,
    },
    /// The desired config is the blocked target: no action until the desired config changes or
    /// `flameholder retry` releases it.
    Blocked {
        /// Reason and remedy.
        reason: String,
    },
    /// Backoff after a failed attempt.
    BackingOff { problem: DaemonProblem },
    /// Shut the daemon down.
    Stopping,
}

/// Action that follows a drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterDrain {
    /// Continue with [`DaemonPhase::Applying`].
    Apply,
    /// Continue with [`DaemonPhase::Unlocking`].
    Unlock,
}

/// Output of the state machine, carried out by the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DaemonCommand {
    /// Recover from an interrupted change and observe the host.
    Observe,
    /// Fetch this config from the source.
    Fetch(ConfigRef),
    /// Plan and stage the update to this config.
    Prepare(ConfigRef),
    /// Request the grant to disrupt the host.
    RequestGrant(ConfigRef),
    /// Request cordon and drain of the node from the cluster.
    Drain(ConfigRef),
    /// Apply the live update.
    Apply(ConfigRef),
    /// Unlock the staged deployment.
    Unlock(ConfigRef),
    /// Ask logind for the reboot.
    Reboot(ConfigRef),
    /// Remove a staged deployment that is not desired any more, and search for drift.
    Verify,
    /// Request an uncordon of the node from the cluster.
    Uncordon,
    /// Cancel the running command.
    Cancel,
    /// Send [`DaemonEvent::TimerExpired`] after this delay.
    Wait(DaemonDelay),
}

/// Kind of delay, which the daemon maps to a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DaemonDelay {
    /// Backoff for this retry class, after this number of failures in a row.
    Backoff(crate::core::values::backoff::RetryClass, u32),
    /// Time until the grant is requested again.
    Grant(std::time::Duration),
    /// Deadline of a drain, after which it is reported as failed.
    Drain,
    /// Deadline of an uncordon, after which it is reported as failed.
    Uncordon,
    /// Deadline of a shutdown, after which the host is observed again.
    Reboot,
    /// Interval in which a boot check or a rollback is observed again if neither reports anything.
    BootCheck,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self {
            phase: DaemonPhase::Observing,
            desired: None,
            current: None,
            blocked: None,
            is_forced: false,
            finalize_failure: None,
            undesired: None,
            failures: 0,
            observes_again: false,
            trust: None,
            trust_failure: None,
            pins: None,
            drain_wait: None,
        }
    }
}

impl Lifecycle {
    /// Return the reason for the error or the wait, in one sentence.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        match (&self.phase, &self.drain_wait) {
            (DaemonPhase::Draining { target, .. }, Some(subject)) => {
                Some(format!("the node is not drained for {} yet: it waits for {subject}", target.config))
            }
            (DaemonPhase::Uncordoning { .. }, Some(reason)) => {
                Some(format!("the node is not uncordoned yet: {reason}"))
            }
            (phase, _) => phase.reason(),
        }
    }
}

impl DaemonPhase {
    /// Return the commands to carry out on entry into this phase, after `failures` failures in a row.
    #[must_use]
    pub fn commands(&self, failures: u32) -> Vec<DaemonCommand> {
        match self {
            Self::Observing => vec![DaemonCommand::Observe],
            Self::Fetching { target } => vec![DaemonCommand::Fetch(target.clone())],
            Self::Preparing { target } => vec![DaemonCommand::Prepare(target.clone())],
            Self::AwaitingGrant { wait: Some(delay), is_requested: false, .. } => {
                vec![DaemonCommand::Wait(DaemonDelay::Grant(delay.retry_after))]
            }
            Self::AwaitingGrant { target, .. } => vec![DaemonCommand::RequestGrant(target.clone())],
            Self::Draining { target, is_overdue, .. } => {
                let wait = (!is_overdue).then_some(DaemonCommand::Wait(DaemonDelay::Drain));
                [DaemonCommand::Drain(target.clone())].into_iter().chain(wait).collect()
            }
            Self::Applying { target } => vec![DaemonCommand::Apply(target.clone())],
            Self::Unlocking { target } => vec![DaemonCommand::Unlock(target.clone())],
            Self::Rebooting { target, .. } => vec![DaemonCommand::Reboot(target.clone())],
            Self::ShuttingDown { .. } => vec![DaemonCommand::Wait(DaemonDelay::Reboot)],
            Self::CheckingBoot { .. } | Self::RollingBack { .. } => {
                vec![DaemonCommand::Wait(DaemonDelay::BootCheck)]
            }
            Self::Verifying => vec![DaemonCommand::Verify],
            Self::Uncordoning { is_overdue } => {
                let wait = (!is_overdue).then_some(DaemonCommand::Wait(DaemonDelay::Uncordon));
                [DaemonCommand::Uncordon].into_iter().chain(wait).collect()
            }
            Self::BackingOff { problem } => {
                vec![DaemonCommand::Wait(DaemonDelay::Backoff(problem.class.retry_class(), failures))]
            }
            Self::Idle | Self::Done | Self::Drifted { .. } | Self::Blocked { .. } | Self::Stopping => {
                Vec::new()
            }
        }
    }

    /// Return true if the phase must be published before its commands run, because they change the host, or
    /// because the source may have changed the desired config while it was out of reach.
    #[must_use]
    pub fn is_published_first(&self) -> bool {
        matches!(self, Self::Preparing { .. } | Self::Applying { .. } | Self::Rebooting { .. })
    }

    /// Return the config that this phase works towards.
    #[must_use]
    pub fn target(&self) -> Option<&ConfigRef> {
        match self {
            Self::Fetching { target }
            | Self::Preparing { target }
            | Self::AwaitingGrant { target, .. }
            | Self::Draining { target, .. }
            | Self::Applying { target }
            | Self::Unlocking { target }
            | Self::Rebooting { target, .. }
            | Self::ShuttingDown { target } => Some(target),
            _ => None,
        }
    }

    /// Return the reason for the error or the wait, in one sentence.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::BackingOff { problem } => Some(problem.reason.clone()),
            Self::Drifted { reason } | Self::Blocked { reason } => Some(reason.clone()),
            Self::CheckingBoot { failed_checks } => failed_checks.clone(),
            Self::RollingBack { reason } => Some(format!(
                "the generation is rejected ({reason}), and the reboot that rolls it back is outstanding; reboot the host, or see `systemctl status flameholder-confirm-boot.service`"
            )),
            Self::Rebooting { inhibited_by, .. } => {
                inhibited_by.as_ref().map(|who| format!("the reboot waits for {who}"))
            }
            Self::AwaitingGrant { wait: Some(delay), .. } => {
                Some(format!("the update is prepared and waits for {}", delay.waits_for))
            }
            Self::Draining { target, is_overdue: true, .. } => Some(format!(
                "the node is not drained for {} yet; see the messages of the cluster's drain controller about this node",
                target.config
            )),
            Self::Uncordoning { is_overdue: true } => Some(
                "the node is not uncordoned yet; see the messages of the cluster's drain controller about this node"
                    .to_owned(),
            ),
            _ => None,
        }
    }

    /// Return the subject of the wait for a grant.
    #[must_use]
    pub fn grant_wait(&self) -> Option<&GrantWait> {
        match self {
            Self::AwaitingGrant { wait: Some(delay), .. } => Some(&delay.waits_for),
            _ => None,
        }
    }

    /// Return the phase's name in status, metrics and journal.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Observing => "Observing",
            Self::Idle => "Idle",
            Self::Fetching { .. } => "Fetching",
            Self::Preparing { .. } => "Preparing",
            Self::AwaitingGrant { .. } => "AwaitingGrant",
            Self::Draining { .. } => "Draining",
            Self::Applying { .. } => "Applying",
            Self::Unlocking { .. } => "Unlocking",
            Self::Rebooting { .. } => "Rebooting",
            Self::ShuttingDown { .. } => "ShuttingDown",
            Self::CheckingBoot { .. } => "CheckingBoot",
            Self::RollingBack { .. } => "RollingBack",
            Self::Verifying => "Verifying",
            Self::Uncordoning { .. } => "Uncordoning",
            Self::Done => "Done",
            Self::Drifted { .. } => "Drifted",
            Self::Blocked { .. } => "Blocked",
            Self::BackingOff { .. } => "BackingOff",
            Self::Stopping => "Stopping",
        }
    }
}
