//! What the daemon does next: a total function from where it stands and what happens to where it stands then. What it
//! does there follows from the phase alone, so a daemon that was killed finds its way back by looking.

mod problem;
mod step;

pub use problem::{Class, Problem};

use serde::{Deserialize, Serialize};

/// What a source wants of this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wish {
    /// Name of the `MachineConfig`.
    pub config: String,
    /// The image of on-cluster layering, which stands in for the configuration's own.
    pub image: Option<String>,
    /// Digest of the configuration's document, where its name does not tell one content from another: `sha256:…`.
    pub digest: Option<String>,
}

impl Wish {
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
    pub phase: Phase,
    /// What the source wants; `None` until it has said so.
    pub wish: Option<Wish>,
    /// What the host is; `None` until it was looked at, and where nothing was applied.
    pub runs: Option<Wish>,
    /// What was left, and is not gone to again by itself.
    pub held: Option<Held>,
    /// Whether somebody forces what is wanted.
    pub is_forced: bool,
    /// Why the last shutdown did not lead to what was staged.
    pub vain_reboot: Option<String>,
    /// Attempts that failed in a row.
    pub failures: u32,
}

/// A wish that is not fulfilled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// What was wanted.
    pub wish: Wish,
    /// Why it was left.
    pub reason: String,
}

/// What the daemon does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// It settles what an earlier run or boot left, and finds out what runs.
    Looking,
    /// Nothing is wanted.
    Idle,
    /// It gets the configuration.
    Fetching {
        /// What is wanted.
        target: Wish,
    },
    /// It plans, brings in and stages. The workload does not notice.
    Preparing {
        /// What is wanted.
        target: Wish,
    },
    /// The workload leaves.
    Draining {
        /// What is wanted.
        target: Wish,
        /// What follows.
        then: Then,
        /// Whether it takes longer than anybody should wait.
        is_late: bool,
    },
    /// It changes the running system.
    Applying {
        /// What is wanted.
        target: Wish,
    },
    /// It makes the next boot switch over.
    Arming {
        /// What is wanted.
        target: Wish,
    },
    /// It asks for the reboot.
    Rebooting {
        /// What is wanted.
        target: Wish,
        /// Who blocks it.
        blocked_by: Option<String>,
    },
    /// The host goes down.
    GoingDown {
        /// What is wanted.
        target: Wish,
    },
    /// What booted is to show that it is healthy.
    Judging {
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
    Held {
        /// Why, and the way out.
        reason: String,
    },
    /// An attempt failed, and is made again after a while.
    Waiting {
        /// What is wrong.
        problem: Problem,
    },
    /// It ends.
    Stopping,
}

/// What follows once the workload left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// [`Phase::Applying`]
    Apply,
    /// [`Phase::Arming`]
    Arm,
}

/// What happens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// The source says what it wants.
    Wished(Wish),
    /// What runs is known.
    Looked(Look),
    /// The configuration is here.
    Fetched,
    /// Everything slow is done.
    Prepared(Prepared),
    /// The workload left.
    Drained,
    /// The running system is changed.
    Applied,
    /// The next boot switches over.
    Armed,
    /// Somebody blocks the reboot.
    Blocked {
        /// Who.
        by: String,
    },
    /// The reboot is accepted.
    Accepted,
    /// What runs is what was applied.
    Verified,
    /// It is not.
    Deviates {
        /// In which respect.
        reason: String,
    },
    /// The workload may be there.
    Uncordoned,
    /// What was under way failed.
    Failed(Problem),
    /// The time is over that was to be waited.
    Due,
    /// Somebody touched what is managed.
    Touched,
    /// Something that decides about the host changed: a force file, what is held, its health.
    Nudged,
    /// The daemon is to end.
    Stop,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    /// What the host is.
    pub runs: Option<Wish>,
    /// How it stands with that.
    pub standing: Standing,
    /// What was left.
    pub held: Option<Held>,
    /// Whether somebody forces what is wanted.
    pub is_forced: bool,
    /// Why the last shutdown did not lead to what was staged.
    pub vain_reboot: Option<String>,
}

/// How it stands with what runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Standing {
    /// It is settled.
    #[default]
    Settled,
    /// It is to show that it is healthy.
    OnProbation {
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
pub enum Prepared {
    /// Nothing.
    Nothing,
    /// A change of the running system.
    Ready {
        /// Whether the workload leaves first.
        drain: bool,
    },
    /// A reboot.
    Staged,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Settle what was left, and find out what runs.
    Look,
    /// Get the configuration.
    Fetch(Wish),
    /// Do everything slow.
    Prepare(Wish),
    /// Have the workload leave.
    Drain(Wish),
    /// Change the running system.
    Apply(Wish),
    /// Make the next boot switch over.
    Arm(Wish),
    /// Reboot.
    Reboot(Wish),
    /// Take back what is staged, and compare what runs with what was applied.
    Verify,
    /// Let the workload come back.
    Uncordon,
    /// End what is under way early.
    Cancel,
    /// Wait, for this.
    Wait(Delay),
}

/// How long is waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delay {
    /// After so many failures in a row for want of this.
    Retry(crate::core::values::retry::Cure, u32),
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
            phase: Phase::Looking,
            wish: None,
            runs: None,
            held: None,
            is_forced: false,
            vain_reboot: None,
            failures: 0,
        }
    }
}

impl Phase {
    /// What is done in it.
    #[must_use]
    pub fn commands(&self, failures: u32) -> Vec<Command> {
        match self {
            Self::Looking => vec![Command::Look],
            Self::Fetching { target } => vec![Command::Fetch(target.clone())],
            Self::Preparing { target } => vec![Command::Prepare(target.clone())],
            Self::Draining { target, is_late, .. } => {
                let wait = (!is_late).then_some(Command::Wait(Delay::Drain));
                [Command::Drain(target.clone())].into_iter().chain(wait).collect()
            }
            Self::Applying { target } => vec![Command::Apply(target.clone())],
            Self::Arming { target } => vec![Command::Arm(target.clone())],
            Self::Rebooting { target, .. } => vec![Command::Reboot(target.clone())],
            Self::GoingDown { .. } => vec![Command::Wait(Delay::Reboot)],
            Self::Verifying => vec![Command::Verify],
            Self::Uncordoning { is_late } => {
                let wait = (!is_late).then_some(Command::Wait(Delay::Uncordon));
                [Command::Uncordon].into_iter().chain(wait).collect()
            }
            Self::Waiting { problem } => {
                vec![Command::Wait(Delay::Retry(problem.class.cure(), failures))]
            }
            Self::Idle
            | Self::Judging { .. }
            | Self::Done
            | Self::Drifted { .. }
            | Self::Held { .. }
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
    pub fn target(&self) -> Option<&Wish> {
        match self {
            Self::Fetching { target }
            | Self::Preparing { target }
            | Self::Draining { target, .. }
            | Self::Applying { target }
            | Self::Arming { target }
            | Self::Rebooting { target, .. }
            | Self::GoingDown { target } => Some(target),
            _ => None,
        }
    }

    /// What is wrong, or what is waited for.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Waiting { problem } => Some(problem.reason.clone()),
            Self::Drifted { reason } | Self::Held { reason } => Some(reason.clone()),
            Self::Judging { complaint } => complaint.clone(),
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
            Self::Looking => "Looking",
            Self::Idle => "Idle",
            Self::Fetching { .. } => "Fetching",
            Self::Preparing { .. } => "Preparing",
            Self::Draining { .. } => "Draining",
            Self::Applying { .. } => "Applying",
            Self::Arming { .. } => "Arming",
            Self::Rebooting { .. } => "Rebooting",
            Self::GoingDown { .. } => "GoingDown",
            Self::Judging { .. } => "Judging",
            Self::Verifying => "Verifying",
            Self::Uncordoning { .. } => "Uncordoning",
            Self::Done => "Done",
            Self::Drifted { .. } => "Drifted",
            Self::Held { .. } => "Held",
            Self::Waiting { .. } => "Waiting",
            Self::Stopping => "Stopping",
        }
    }
}
