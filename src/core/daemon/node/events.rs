//! Kubernetes events of the node (`Cordon`, `Drain`, `Reboot`, `Uncordon`), named as MCD names them and sent at
//! the same steps.

use crate::core::daemon::lifecycle::{DaemonPhase, Lifecycle, ProblemClass};
use crate::core::values::foreign_text::harmless_line;

/// Event to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeEvent {
    /// True for an event of type `Warning`, false for `Normal`.
    pub is_warning: bool,
    /// Reason, from the list of MCD's.
    pub reason: &'static str,
    pub message: String,
}

fn normal(reason: &'static str, message: impl AsRef<str>) -> NodeEvent {
    NodeEvent { is_warning: false, reason, message: harmless_line(message.as_ref()).into_owned() }
}

fn warning(reason: &'static str, message: impl AsRef<str>) -> NodeEvent {
    NodeEvent { is_warning: true, reason, message: harmless_line(message.as_ref()).into_owned() }
}

/// Return the events for a transition from `before` to `after`; `drains` is false on a node that is never
/// drained.
#[must_use]
pub fn events_between(before: &Lifecycle, after: &Lifecycle, drains: bool) -> Vec<NodeEvent> {
    // Trust material, for one, changes no phase.
    if before.phase == after.phase && before.failures == after.failures {
        return Vec::new();
    }
    let is_new = before.phase.name() != after.phase.name();
    let current = after.current.as_ref().map_or("(nothing)", |current| current.config.as_str());
    let reason = || after.phase.reason().unwrap_or_default();
    match &after.phase {
        DaemonPhase::Preparing { .. } if is_new => vec![normal(
            "ConfigDriftMonitorStopped",
            "changes of managed files are not reported during the update",
        )],
        DaemonPhase::Verifying if matches!(before.phase, DaemonPhase::Applying { .. }) => {
            vec![normal("SkipReboot", format!("{current} is applied, and needs no reboot"))]
        }
        DaemonPhase::AwaitingGrant { wait: Some(_), .. } => vec![normal("RebootDeferred", reason())],
        DaemonPhase::Draining { is_overdue: true, .. } => vec![warning("FailedToDrain", reason())],
        DaemonPhase::Uncordoning { is_overdue: true } => vec![warning("FailedToUncordon", reason())],
        DaemonPhase::Draining { target, .. } if is_new && drains => vec![
            normal("Cordon", format!("cordon requested for the update to {}", target.config)),
            normal("Drain", format!("drain requested for the update to {}", target.config)),
        ],
        DaemonPhase::Draining { .. } if is_new => {
            vec![normal("Drain", "the only node of a cluster is not drained")]
        }
        DaemonPhase::Unlocking { target } if is_new => {
            vec![normal("OSUpdateStaged", format!("{} is staged for the next boot", target.config))]
        }
        DaemonPhase::Rebooting { target, .. } if is_new => {
            vec![normal("Reboot", format!("rebooting the node into {}", target.config))]
        }
        DaemonPhase::Done if is_new => vec![
            normal("Uncordon", format!("the node is uncordoned, with {current} applied")),
            normal("NodeDone", format!("{current} is applied and verified")),
            normal("ConfigDriftMonitorStarted", format!("managed files of {current} are watched")),
        ],
        DaemonPhase::RollingBack { .. } if is_new => {
            after.phase.reason().map(|reason| warning("FailedToReconcile", reason)).into_iter().collect()
        }
        DaemonPhase::Drifted { reason } if is_new => vec![warning("ConfigDriftDetected", reason.clone())],
        DaemonPhase::Blocked { reason } if is_new => vec![warning("FailedToReconcile", reason.clone())],
        DaemonPhase::Fetching { target } if starts_elsewhere(before, after) => {
            vec![normal(
                "BootResync",
                format!("the daemon started on {current}, and {} is desired", target.config),
            )]
        }
        DaemonPhase::BackingOff { problem } if problem.class == ProblemClass::Drift => {
            vec![warning("PreflightConfigDriftCheckFailed", problem.reason.clone())]
        }
        DaemonPhase::BackingOff { problem } if problem.class == ProblemClass::Configuration => {
            vec![warning("FailedToReconcile", problem.reason.clone())]
        }
        _ => Vec::new(),
    }
}

/// Return true if a started daemon found another config than the desired one.
fn starts_elsewhere(before: &Lifecycle, after: &Lifecycle) -> bool {
    let is_first = match before.phase {
        DaemonPhase::Observing => before.current.is_none(),
        DaemonPhase::Idle => true,
        _ => false,
    };
    is_first && after.current.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::daemon::lifecycle::{AfterDrain, ConfigRef, DaemonProblem};
    use crate::core::trust::document::TrustVersion;

    fn reasons(phases: impl IntoIterator<Item = DaemonPhase>, drains: bool) -> Vec<&'static str> {
        let mut before = Lifecycle::default();
        let mut reasons = Vec::new();
        for phase in phases {
            let after = Lifecycle { phase, ..Lifecycle::default() };
            reasons.extend(events_between(&before, &after, drains).into_iter().map(|event| event.reason));
            assert_eq!(events_between(&after, &after, drains), [], "a repeated view sends no event");
            before = after;
        }
        reasons
    }

    #[test]
    fn uncordon_is_an_event_once_it_is_complete() {
        let uncordoning = || DaemonPhase::Uncordoning { is_overdue: false };
        assert!(reasons([uncordoning()], true).is_empty());
        let done = ["Uncordon", "NodeDone", "ConfigDriftMonitorStarted"];
        assert_eq!(reasons([uncordoning(), DaemonPhase::Done], true), done);
    }

    #[test]
    fn daemon_that_starts_on_another_config_resyncs_once() {
        let config = |name: &str| ConfigRef { config: name.into(), image: None, digest: None };
        let fetching = || Lifecycle {
            phase: DaemonPhase::Fetching { target: config("b") },
            current: Some(config("a")),
            ..Lifecycle::default()
        };
        let sent = |before: Lifecycle| {
            let events = events_between(&before, &fetching(), true);
            events.into_iter().map(|event| event.reason).collect::<Vec<_>>()
        };
        assert_eq!(sent(Lifecycle::default()), ["BootResync"]);
        let observing = Lifecycle { current: Some(config("a")), ..Lifecycle::default() };
        assert!(sent(observing.clone()).is_empty(), "a retry");
        assert_eq!(sent(Lifecycle { phase: DaemonPhase::Idle, ..observing.clone() }), ["BootResync"]);
        assert!(sent(Lifecycle { phase: DaemonPhase::Done, ..observing }).is_empty());
    }

    #[test]
    fn change_of_trust_material_sends_no_event() {
        let problem = DaemonProblem { class: ProblemClass::Drift, reason: "config drift".to_owned() };
        let before = Lifecycle { phase: DaemonPhase::BackingOff { problem }, ..Lifecycle::default() };
        let version = |text: &str| TrustVersion { resource_version: text.into(), rotation: String::new() };
        let after = Lifecycle { trust: Some(version("2")), ..before.clone() };
        assert_eq!(events_between(&before, &after, true), []);
        let again = Lifecycle { failures: 1, ..after };
        assert_eq!(events_between(&before, &again, true).len(), 1);
    }

    #[test]
    fn drift_before_an_update_fails_its_preflight_check() {
        let problem = DaemonProblem { class: ProblemClass::Drift, reason: "config drift".to_owned() };
        assert_eq!(reasons([DaemonPhase::BackingOff { problem }], true), ["PreflightConfigDriftCheckFailed"]);
    }

    #[test]
    fn live_update_skips_the_reboot() {
        let target = || ConfigRef { config: "b".into(), image: None, digest: None };
        let draining = DaemonPhase::Draining { target: target(), next: AfterDrain::Apply, is_overdue: false };
        let applying = DaemonPhase::Applying { target: target() };
        let phases =
            [DaemonPhase::Preparing { target: target() }, draining, applying, DaemonPhase::Verifying];
        let sent = ["ConfigDriftMonitorStopped", "Cordon", "Drain", "SkipReboot"];
        assert_eq!(reasons(phases.clone(), true), sent);
        assert_eq!(reasons(phases, false), ["ConfigDriftMonitorStopped", "Drain", "SkipReboot"]);
        assert!(reasons([DaemonPhase::Observing, DaemonPhase::Verifying], true).is_empty());
    }
}
