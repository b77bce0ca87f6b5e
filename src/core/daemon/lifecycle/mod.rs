//! What the daemon does next: a total function from where it stands and what happens to where it stands then. What it
//! does there follows from the phase alone, so a daemon that was killed finds its way back by looking.

mod problem;
mod step;

pub use problem::{DaemonProblem, ProblemClass};

use serde::{Deserialize, Serialize};

/// What a source wants of this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigRef {
    /// Name of the `MachineConfig`.
    pub config: String,
    /// The image of on-cluster layering, which stands in for the configuration's own.
    pub image: Option<String>,
    /// Digest of the configuration's document, where its name does not tell one content from another: `sha256:…`.
    pub digest: Option<String>,
}

impl ConfigRef {
    /// Whether both mean the same. What one of them does not know is not compared.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let digests = self.digest.as_ref().zip(other.digest.as_ref());
        self.config == other.config
            && self.image == other.image
            && digests.is_none_or(|(one, other)| one == other)
    }
}

/// Where the daemon stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lifecycle {
    /// What it does.
    pub phase: DaemonPhase,
    /// What the source wants; `None` until it has said so.
    pub wish: Option<ConfigRef>,
    /// What the host is; `None` until it was looked at, and where nothing was applied.
    pub runs: Option<ConfigRef>,
    /// What was left, and is not gone to again by itself.
    pub held: Option<BlockedConfig>,
    /// Whether somebody forces what is wanted.
    pub is_forced: bool,
    /// Why the last shutdown did not lead to what was staged.
    pub vain_reboot: Option<String>,
    /// Attempts that failed in a row.
    pub failures: u32,
}

/// A wish that is not fulfilled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedConfig {
    /// What was wanted.
    pub wish: ConfigRef,
    /// Why it was left.
    pub reason: String,
}

/// What the daemon does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DaemonPhase {
    /// It settles what an earlier run or boot left, and finds out what runs.
    Observing,
    /// Nothing is wanted.
    Idle,
    /// It gets the configuration.
    Fetching {
        /// What is wanted.
        target: ConfigRef,
    },
    /// It plans, brings in and stages. The workload does not notice.
    Preparing {
        /// What is wanted.
        target: ConfigRef,
    },
    /// The workload leaves.
    Draining {
        /// What is wanted.
        target: ConfigRef,
        /// What follows.
        then: AfterDrain,
        /// Whether it takes longer than anybody should wait.
        is_late: bool,
    },
    /// It changes the running system.
    Applying {
        /// What is wanted.
        target: ConfigRef,
    },
    /// It makes the next boot switch over.
    Unlocking {
        /// What is wanted.
        target: ConfigRef,
    },
    /// It asks for the reboot.
    Rebooting {
        /// What is wanted.
        target: ConfigRef,
        /// Who blocks it.
        blocked_by: Option<String>,
    },
    /// The host goes down.
    ShuttingDown {
        /// What is wanted.
        target: ConfigRef,
    },
    /// What booted is to show that it is healthy.
    CheckingBoot {
        /// What it waits for.
        complaint: Option<String>,
    },
    /// It compares what runs with what was applied.
    Verifying,
    /// The workload may come back.
    Uncordoning {
        /// Whether it takes longer than anybody should wait.
        is_late: bool,
    },
    /// The host is what is wanted, and that is verified.
    Done,
    /// The host is not what was applied.
    Drifted {
        /// In which respect.
        reason: String,
    },
    /// What is wanted was left before, and is not gone to again by itself.
    Blocked {
        /// Why, and the way out.
        reason: String,
    },
    /// An attempt failed, and is made again after a while.
    BackingOff {
        /// What is wrong.
        problem: DaemonProblem,
    },
    /// It ends.
    Stopping,
}

/// What follows once the workload left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterDrain {
    /// [`DaemonPhase::Applying`]
    Apply,
    /// [`DaemonPhase::Unlocking`]
    Unlock,
}

/// What happens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DaemonEvent {
    /// The source says what it wants.
    DesiredChanged(ConfigRef),
    /// What runs is known.
    Observed(HostObservation),
    /// The configuration is here.
    Fetched,
    /// Everything slow is done.
    Prepared(PreparedUpdate),
    /// The workload left.
    Drained,
    /// The running system is changed.
    Applied,
    /// The next boot switches over.
    Unlocked,
    /// Somebody blocks the reboot.
    Inhibited {
        /// Who.
        by: String,
    },
    /// The reboot is accepted.
    RebootAccepted,
    /// What runs is what was applied.
    Verified,
    /// It is not.
    Drifted {
        /// In which respect.
        reason: String,
    },
    /// The workload may be there.
    Uncordoned,
    /// What was under way failed.
    Failed(DaemonProblem),
    /// The time is over that was to be waited.
    TimerExpired,
    /// Somebody touched what is managed.
    FilesChanged,
    /// Something that decides about the host changed: a force file, what is held, its health.
    StateChanged,
    /// The daemon is to end.
    Stop,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostObservation {
    /// What the host is.
    pub runs: Option<ConfigRef>,
    /// How it stands with that.
    pub standing: BootCheckState,
    /// What was left.
    pub held: Option<BlockedConfig>,
    /// Whether somebody forces what is wanted.
    pub is_forced: bool,
    /// Why the last shutdown did not lead to what was staged.
    pub vain_reboot: Option<String>,
}

/// How it stands with what runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BootCheckState {
    /// It is settled.
    #[default]
    Confirmed,
    /// It is to show that it is healthy.
    Unconfirmed {
        /// What it waits for.
        complaint: Option<String>,
    },
    /// It is not healthy, and stays.
    Unhealthy {
        /// What is wrong.
        complaint: String,
    },
}

/// What is left to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PreparedUpdate {
    /// Nothing.
    Nothing,
    /// A change of the running system.
    Live {
        /// Whether the workload leaves first.
        drain: bool,
    },
    /// A reboot.
    Staged,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DaemonCommand {
    /// Settle what was left, and find out what runs.
    Observe,
    /// Get the configuration.
    Fetch(ConfigRef),
    /// Do everything slow.
    Prepare(ConfigRef),
    /// Have the workload leave.
    Drain(ConfigRef),
    /// Change the running system.
    Apply(ConfigRef),
    /// Make the next boot switch over.
    Unlock(ConfigRef),
    /// Reboot.
    Reboot(ConfigRef),
    /// Take back what is staged, and compare what runs with what was applied.
    Verify,
    /// Let the workload come back.
    Uncordon,
    /// End what is under way early.
    Cancel,
    /// Wait, for this.
    Wait(DaemonDelay),
}

/// How long is waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DaemonDelay {
    /// After so many failures in a row for want of this.
    Backoff(crate::core::values::backoff::RetryClass, u32),
    /// As long as anybody should wait for a drain.
    Drain,
    /// As long as anybody should wait for the end of one.
    Uncordon,
    /// As long as a host takes to go down.
    Reboot,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self {
            phase: DaemonPhase::Observing,
            wish: None,
            runs: None,
            held: None,
            is_forced: false,
            vain_reboot: None,
            failures: 0,
        }
    }
}

impl DaemonPhase {
    /// What is done in it.
    #[must_use]
    pub fn commands(&self, failures: u32) -> Vec<DaemonCommand> {
        match self {
            Self::Observing => vec![DaemonCommand::Observe],
            Self::Fetching { target } => vec![DaemonCommand::Fetch(target.clone())],
            Self::Preparing { target } => vec![DaemonCommand::Prepare(target.clone())],
            Self::Draining { target, is_late, .. } => {
                let wait = (!is_late).then_some(DaemonCommand::Wait(DaemonDelay::Drain));
                [DaemonCommand::Drain(target.clone())].into_iter().chain(wait).collect()
            }
            Self::Applying { target } => vec![DaemonCommand::Apply(target.clone())],
            Self::Unlocking { target } => vec![DaemonCommand::Unlock(target.clone())],
            Self::Rebooting { target, .. } => vec![DaemonCommand::Reboot(target.clone())],
            Self::ShuttingDown { .. } => vec![DaemonCommand::Wait(DaemonDelay::Reboot)],
            Self::Verifying => vec![DaemonCommand::Verify],
            Self::Uncordoning { is_late } => {
                let wait = (!is_late).then_some(DaemonCommand::Wait(DaemonDelay::Uncordon));
                [DaemonCommand::Uncordon].into_iter().chain(wait).collect()
            }
            Self::BackingOff { problem } => {
                vec![DaemonCommand::Wait(DaemonDelay::Backoff(problem.class.cure(), failures))]
            }
            Self::Idle
            | Self::CheckingBoot { .. }
            | Self::Done
            | Self::Drifted { .. }
            | Self::Blocked { .. }
            | Self::Stopping => Vec::new(),
        }
    }

    /// Whether whoever watches has to know of it before it begins: what follows changes the host, or the source may have
    /// changed its mind while it could not be reached.
    #[must_use]
    pub fn is_announced_first(&self) -> bool {
        matches!(self, Self::Preparing { .. } | Self::Applying { .. } | Self::Rebooting { .. })
    }

    /// What is worked on.
    #[must_use]
    pub fn target(&self) -> Option<&ConfigRef> {
        match self {
            Self::Fetching { target }
            | Self::Preparing { target }
            | Self::Draining { target, .. }
            | Self::Applying { target }
            | Self::Unlocking { target }
            | Self::Rebooting { target, .. }
            | Self::ShuttingDown { target } => Some(target),
            _ => None,
        }
    }

    /// What is wrong, or what is waited for.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::BackingOff { problem } => Some(problem.reason.clone()),
            Self::Drifted { reason } | Self::Blocked { reason } => Some(reason.clone()),
            Self::CheckingBoot { complaint } => complaint.clone(),
            Self::Rebooting { blocked_by, .. } => {
                blocked_by.as_ref().map(|who| format!("the reboot waits for {who}"))
            }
            Self::Draining { target, is_late: true, .. } => Some(format!(
                "the workload has not left for {}; see what the cluster's drain controller says of this node",
                target.config
            )),
            Self::Uncordoning { is_late: true } => Some(
                "the node is not uncordoned; see what the cluster's drain controller says of this node"
                    .to_owned(),
            ),
            _ => None,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Observing => "Looking",
            Self::Idle => "Idle",
            Self::Fetching { .. } => "Fetching",
            Self::Preparing { .. } => "Preparing",
            Self::Draining { .. } => "Draining",
            Self::Applying { .. } => "Applying",
            Self::Unlocking { .. } => "Arming",
            Self::Rebooting { .. } => "Rebooting",
            Self::ShuttingDown { .. } => "GoingDown",
            Self::CheckingBoot { .. } => "Judging",
            Self::Verifying => "Verifying",
            Self::Uncordoning { .. } => "Uncordoning",
            Self::Done => "Done",
            Self::Drifted { .. } => "Drifted",
            Self::Blocked { .. } => "Held",
            Self::BackingOff { .. } => "Waiting",
            Self::Stopping => "Stopping",
        }
    }
}
