//! State of the node that annotations, conditions and metrics report: `Done`, `Working`, `Degraded` or
//! `Unreconcilable`.

use crate::core::daemon::lifecycle::{DaemonPhase, Lifecycle, ProblemClass};

/// State of a node that an operator must repair.
pub const DEGRADED: &str = "Degraded";
/// State of a node whose desired config cannot be applied to it.
const UNRECONCILABLE: &str = "Unreconcilable";

/// Return true if the phase is part of an update.
#[must_use]
pub fn is_at_work(phase: &DaemonPhase) -> bool {
    matches!(
        phase,
        DaemonPhase::Preparing { .. }
            | DaemonPhase::AwaitingGrant { .. }
            | DaemonPhase::Draining { .. }
            | DaemonPhase::Applying { .. }
            | DaemonPhase::Unlocking { .. }
            | DaemonPhase::Rebooting { .. }
            | DaemonPhase::ShuttingDown { .. }
    )
}

/// Return the state of the node after `published`, and its reason if that changes; `None` if the state stays. Annotation
/// and metric have it from here. A degraded state lasts until the node is `Done`, with the reason of the latest attempt.
#[must_use]
pub fn node_state(lifecycle: &Lifecycle, published: &str) -> Option<(&'static str, Option<String>)> {
    let phase = &lifecycle.phase;
    if let Some((state, reason)) = degraded_state(lifecycle) {
        return Some((state, Some(reason)));
    }
    if let Some(failure) = lifecycle.trust_failure.as_ref().filter(|failure| failure.is_reported()) {
        return Some((DEGRADED, Some(failure.problem.reason.clone())));
    }
    if *phase == DaemonPhase::Done {
        return Some(("Done", Some(String::new())));
    }
    match phase {
        DaemonPhase::BackingOff { problem } if is_degraded(published) => {
            Some((state_of(phase), Some(problem.reason.clone())))
        }
        _ if is_at_work(phase) && !is_degraded(published) => Some(("Working", None)),
        _ => None,
    }
}

/// Return true for the states of a node that does not get where it should.
#[must_use]
pub fn is_degraded(state: &str) -> bool {
    state == DEGRADED || state == UNRECONCILABLE
}

/// Return the degraded state of a phase.
fn state_of(phase: &DaemonPhase) -> &'static str {
    match phase {
        DaemonPhase::BackingOff { problem } if problem.class == ProblemClass::Configuration => UNRECONCILABLE,
        _ => DEGRADED,
    }
}

/// Return the degraded state and its reason, if the phase's problem must be reported to the cluster.
fn degraded_state(lifecycle: &Lifecycle) -> Option<(&'static str, String)> {
    let phase = &lifecycle.phase;
    let is_told = match phase {
        DaemonPhase::BackingOff { problem } => problem.class.is_reported_after(lifecycle.failures),
        DaemonPhase::Draining { is_overdue, .. } | DaemonPhase::Uncordoning { is_overdue } => *is_overdue,
        DaemonPhase::RollingBack { .. } | DaemonPhase::Drifted { .. } | DaemonPhase::Blocked { .. } => true,
        _ => false,
    };
    phase.reason().filter(|_| is_told).map(|reason| (state_of(phase), reason))
}
