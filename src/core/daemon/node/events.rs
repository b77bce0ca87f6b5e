//! Events of the node, named as those of the machine-config-daemon.

use crate::core::daemon::lifecycle::{DaemonPhase, Lifecycle, ProblemClass};

/// An event to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeEvent {
    /// Whether somebody has to look.
    pub is_warning: bool,
    /// Its reason, one of a fixed list.
    pub reason: &'static str,
    /// What happened.
    pub message: String,
}

fn normal(reason: &'static str, message: String) -> NodeEvent {
    NodeEvent { is_warning: false, reason, message }
}

fn warning(reason: &'static str, message: String) -> NodeEvent {
    NodeEvent { is_warning: true, reason, message }
}

/// What is told when the daemon comes from one place to another.
#[must_use]
pub fn between(before: &Lifecycle, after: &Lifecycle, drains: bool) -> Vec<NodeEvent> {
    let is_new = before.phase.name() != after.phase.name();
    let runs = after.runs.as_ref().map_or("(nothing)", |runs| &runs.config);
    match &after.phase {
        DaemonPhase::Draining { is_late: true, .. } => {
            vec![warning("FailedToDrain", after.phase.reason().unwrap_or_default())]
        }
        DaemonPhase::Uncordoning { is_late: true } => {
            vec![warning("FailedToUncordon", after.phase.reason().unwrap_or_default())]
        }
        DaemonPhase::Draining { target, .. } if is_new && drains => vec![
            normal("Cordon", format!("the node is to be cordoned for {}", target.config)),
            normal("Drain", format!("the node is to be drained for {}", target.config)),
        ],
        DaemonPhase::Unlocking { target } if is_new => {
            vec![normal("OSUpdateStaged", format!("{} is staged", target.config))]
        }
        DaemonPhase::Rebooting { target, .. } if is_new => {
            vec![normal("Reboot", format!("the node reboots into {}", target.config))]
        }
        DaemonPhase::Uncordoning { .. } if is_new && !was_well(before) => {
            vec![normal("Uncordon", format!("the node is to be uncordoned on {runs}"))]
        }
        DaemonPhase::Done if is_new && !was_well(before) => {
            vec![normal("NodeDone", format!("the node is {runs}, and that is verified"))]
        }
        DaemonPhase::Drifted { reason } if is_new => vec![warning("ConfigDriftDetected", reason.clone())],
        DaemonPhase::Blocked { reason } if is_new => vec![warning("FailedToReconcile", reason.clone())],
        DaemonPhase::BackingOff { problem } if problem.class == ProblemClass::Configuration => {
            vec![warning("FailedToReconcile", problem.reason.clone())]
        }
        _ => Vec::new(),
    }
}

/// Whether nothing happened that is worth an event once it is over.
fn was_well(before: &Lifecycle) -> bool {
    matches!(before.phase, DaemonPhase::Done)
}
