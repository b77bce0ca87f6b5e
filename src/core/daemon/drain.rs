//! Drain of the host's Node by the daemon itself, where no controller of the cluster does it: which pods are evicted, which
//! stay, and when the Node is cordoned.

use std::fmt;

use super::lifecycle::{ConfigRef, DaemonPhase, Lifecycle};
use crate::core::config::settings::drain::{DrainSettings, EvictionChoice};
use crate::core::values::foreign_text::harmless_line;

/// Owner that creates a pod again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodOwner {
    /// None: a bare pod.
    Nothing,
    DaemonSet,
    /// A file on the host, which the kubelet shows as a mirror pod.
    StaticFile,
    Other,
}

/// Pod on the Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePod {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub owner: PodOwner,
    pub has_empty_dir: bool,
    /// True if its containers have ended for good.
    pub has_ended: bool,
    /// True if it is being deleted.
    pub is_terminating: bool,
}

impl fmt::Display for NodePod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", harmless_line(&self.namespace), harmless_line(&self.name))
    }
}

/// Treatment of a pod in a drain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodTreatment {
    /// The reboot of the host is no loss for it.
    Leave,
    Evict,
    /// Wait for its end, which has begun.
    AwaitEnd,
    /// Wait for an operator: the reason, and the way out.
    AwaitOperator(&'static str),
}

impl NodePod {
    /// Return the treatment of the pod.
    #[must_use]
    pub fn treatment(&self, rules: &DrainSettings) -> PodTreatment {
        match self.owner {
            PodOwner::DaemonSet | PodOwner::StaticFile => PodTreatment::Leave,
            _ if self.has_ended => PodTreatment::Leave,
            _ if self.is_terminating => PodTreatment::AwaitEnd,
            PodOwner::Nothing if rules.bare_pods() == EvictionChoice::Wait => PodTreatment::AwaitOperator(
                "has no controller that creates it again; delete it, or set `bare-pods = \"evict\"` in [drain]",
            ),
            _ if self.has_empty_dir && rules.empty_dir() == EvictionChoice::Wait => {
                PodTreatment::AwaitOperator(
                    "loses its emptyDir volume; delete it, or set `empty-dir = \"evict\"` in [drain]",
                )
            }
            PodOwner::Nothing | PodOwner::Other => PodTreatment::Evict,
        }
    }
}

/// State in which a phase of the daemon needs the Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeDemand<'a> {
    /// Cordon and drain it for an update.
    Drained(&'a ConfigRef),
    /// Uncordon it, and report that.
    Uncordoned,
    /// Uncordon it if a drain was given up: the host is not about to be disrupted.
    Schedulable,
    /// Uncordon it if a drain for another update was given up: the next attempt at this one goes on with its drain.
    SchedulableUnlessFor(&'a ConfigRef),
    /// Leave it as it is.
    Unchanged,
}

impl<'a> NodeDemand<'a> {
    /// Return the demand of the daemon's state.
    #[must_use]
    pub fn of(lifecycle: &'a Lifecycle) -> Self {
        match &lifecycle.phase {
            // The next attempt may be long in coming, and the host serves meanwhile.
            DaemonPhase::BackingOff { problem } if problem.class.is_reported_after(lifecycle.failures) => {
                Self::Schedulable
            }
            DaemonPhase::Draining { target, .. } => Self::Drained(target),
            DaemonPhase::Uncordoning { .. } => Self::Uncordoned,
            DaemonPhase::Idle
            | DaemonPhase::AwaitingGrant { wait: Some(_), is_requested: false, .. }
            | DaemonPhase::Done
            | DaemonPhase::Blocked { .. } => Self::Schedulable,
            // Without a wait yet, the grant is requested: the answer decides if the drain goes on.
            DaemonPhase::Fetching { target }
            | DaemonPhase::Preparing { target }
            | DaemonPhase::AwaitingGrant { target, .. } => Self::SchedulableUnlessFor(target),
            DaemonPhase::Observing
            | DaemonPhase::Applying { .. }
            | DaemonPhase::Unlocking { .. }
            | DaemonPhase::Rebooting { .. }
            | DaemonPhase::ShuttingDown { .. }
            | DaemonPhase::CheckingBoot { .. }
            | DaemonPhase::RollingBack { .. }
            | DaemonPhase::Verifying
            | DaemonPhase::Drifted { .. }
            | DaemonPhase::BackingOff { .. }
            | DaemonPhase::Stopping => Self::Unchanged,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::core::config::settings::{FragmentFile, Settings};
    use crate::core::daemon::grant::{GrantDelay, GrantWait};
    use crate::core::daemon::lifecycle::{AfterDrain, DaemonProblem, ProblemClass};
    use crate::core::values::names::ManagedPath;

    fn pod(owner: PodOwner) -> NodePod {
        NodePod {
            namespace: "shop".to_owned(),
            name: "web-1".to_owned(),
            uid: "1".to_owned(),
            owner,
            has_empty_dir: false,
            has_ended: false,
            is_terminating: false,
        }
    }

    #[test]
    fn another_attempt_at_an_update_keeps_its_drain_unless_it_has_to_wait() {
        let waits_for = GrantWait::Drain { reason: "the pod a/b".into() };
        let delay = GrantDelay { waits_for, retry_after: Duration::from_secs(60) };
        let target = ConfigRef { config: "b".into(), image: None, digest: None };
        let awaiting = |wait: Option<&GrantDelay>, is_requested| DaemonPhase::AwaitingGrant {
            target: target.clone(),
            next: AfterDrain::Unlock,
            wait: wait.cloned(),
            is_requested,
        };
        let keeps = NodeDemand::SchedulableUnlessFor(&target);
        let failed = |class| DaemonPhase::BackingOff { problem: DaemonProblem { class, reason: "x".into() } };
        for (phase, failures, expected) in [
            (DaemonPhase::Fetching { target: target.clone() }, 9, keeps),
            (DaemonPhase::Preparing { target: target.clone() }, 9, keeps),
            (awaiting(None, true), 0, keeps),
            (awaiting(Some(&delay), true), 0, keeps),
            (awaiting(Some(&delay), false), 0, NodeDemand::Schedulable),
            (DaemonPhase::Unlocking { target: target.clone() }, 0, NodeDemand::Unchanged),
            (DaemonPhase::Idle, 0, NodeDemand::Schedulable),
            (failed(ProblemClass::Transient), 1, NodeDemand::Unchanged),
            (failed(ProblemClass::Transient), 9, NodeDemand::Schedulable),
            (failed(ProblemClass::Host), 1, NodeDemand::Schedulable),
        ] {
            let lifecycle = Lifecycle { phase, failures, ..Lifecycle::default() };
            assert_eq!(NodeDemand::of(&lifecycle), expected, "{lifecycle:?}");
        }
    }

    #[test]
    fn pods_that_come_back_by_themselves_or_have_ended_are_left_alone() {
        let rules = |text: &str| {
            let path = ManagedPath::constant("/etc/flameholder/config.d/a.toml");
            let fragment = FragmentFile { path, bytes: format!("[drain]\n{text}").into_bytes() };
            Settings::of(&[fragment]).unwrap().drain
        };
        let strict = rules("bare-pods = \"wait\"\nempty-dir = \"wait\"");
        let lax = rules("bare-pods = \"evict\"\nempty-dir = \"evict\"");
        for owner in [PodOwner::DaemonSet, PodOwner::StaticFile] {
            let scratch = NodePod { has_empty_dir: true, ..pod(owner) };
            assert_eq!(scratch.treatment(&strict), PodTreatment::Leave, "{owner:?}");
        }
        for owner in [PodOwner::Nothing, PodOwner::Other] {
            let pod = pod(owner);
            let ended = NodePod { has_ended: true, has_empty_dir: true, ..pod.clone() };
            assert_eq!(ended.treatment(&strict), PodTreatment::Leave);
            let ending = NodePod { is_terminating: true, has_empty_dir: true, ..pod.clone() };
            assert_eq!(ending.treatment(&strict), PodTreatment::AwaitEnd);
            assert_eq!(pod.treatment(&lax), PodTreatment::Evict);
            let scratch = NodePod { has_empty_dir: true, ..pod };
            assert!(matches!(scratch.treatment(&strict), PodTreatment::AwaitOperator(_)));
            assert_eq!(scratch.treatment(&lax), PodTreatment::Evict);
        }
        let (bare, owned) = (pod(PodOwner::Nothing), NodePod { has_empty_dir: true, ..pod(PodOwner::Other) });
        let default = DrainSettings::default();
        assert!(matches!(bare.treatment(&default), PodTreatment::AwaitOperator(_)));
        assert_eq!(owned.treatment(&default), PodTreatment::Evict);
    }
}
