//! Kubernetes events of the node (`Cordon`, `Drain`, `Reboot`, `Uncordon`), named as MCD names them.

use crate::core::daemon::lifecycle::{DaemonPhase, Lifecycle, ProblemClass};

/// Event to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeEvent {
    /// True for an event of type `Warning`, false for `Normal`.
    pub is_warning: bool,
    /// Reason, from the list of MCD's.
    pub reason: &'static str,
    pub message: String,
}

fn normal(reason: &'static str, message: String) -> NodeEvent {
    NodeEvent { is_warning: false, reason, message }
}

fn warning(reason: &'static str, message: String) -> NodeEvent {
    NodeEvent { is_warning: true, reason, message }
}

/// Return the events for a transition from `before` to `after`; `drains` is false on a node that is never
/// drained.
#[must_use]
pub fn events_between(before: &Lifecycle, after: &Lifecycle, drains: bool) -> Vec<NodeEvent> {
    let is_new = before.phase.name() != after.phase.name();
    let current = after.current.as_ref().map_or("(nothing)", |current| current.config.as_str());
    match &after.phase {
        DaemonPhase::Draining { is_overdue: true, .. } => {
            vec![warning("FailedToDrain", after.phase.reason().unwrap_or_default())]
        }
        DaemonPhase::Uncordoning { is_overdue: true } => {
            vec![warning("FailedToUncordon", after.phase.reason().unwrap_or_default())]
        }
        DaemonPhase::Draining { target, .. } if is_new && drains => vec![
            normal("Cordon", format!("cordon requested for the update to {}", target.config)),
            normal("Drain", format!("drain requested for the update to {}", target.config)),
        ],
        DaemonPhase::Unlocking { target } if is_new => {
            vec![normal("OSUpdateStaged", format!("{} is staged for the next boot", target.config))]
        }
        DaemonPhase::Rebooting { target, .. } if is_new => {
            vec![normal("Reboot", format!("rebooting the node into {}", target.config))]
        }
        DaemonPhase::Uncordoning { .. } if is_new && !was_healthy(before) => {
            vec![normal("Uncordon", format!("uncordon requested, with {current} applied"))]
        }
        DaemonPhase::Done if is_new && !was_healthy(before) => {
            vec![normal("NodeDone", format!("{current} is applied and verified"))]
        }
        DaemonPhase::RollingBack { .. } if is_new => {
            after.phase.reason().map(|reason| warning("FailedToReconcile", reason)).into_iter().collect()
        }
        DaemonPhase::Drifted { reason } if is_new => vec![warning("ConfigDriftDetected", reason.clone())],
        DaemonPhase::Blocked { reason } if is_new => vec![warning("FailedToReconcile", reason.clone())],
        DaemonPhase::BackingOff { problem } if problem.class == ProblemClass::Configuration => {
            vec![warning("FailedToReconcile", problem.reason.clone())]
        }
        _ => Vec::new(),
    }
}

/// Return true if the node was done before: a mere verification of the current config is not worth an event.
fn was_healthy(before: &Lifecycle) -> bool {
    matches!(before.phase, DaemonPhase::Done)
}
