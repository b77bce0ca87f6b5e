//! Conditions after sequences of phases.

use super::*;
use crate::core::daemon::lifecycle::{ConfigRef, DaemonProblem, ProblemClass, TrustFailure};

fn desired(config: &str) -> ConfigRef {
    ConfigRef { config: config.into(), image: None, digest: None }
}

/// Return the conditions that are not false after these phases.
fn through(phases: impl IntoIterator<Item = DaemonPhase>) -> Vec<String> {
    recorded(phases, false)
}

fn recorded(phases: impl IntoIterator<Item = DaemonPhase>, reports_images: bool) -> Vec<String> {
    let mut conditions = Vec::new();
    for phase in phases {
        let lifecycle = Lifecycle { phase, current: Some(desired("b")), ..Lifecycle::default() };
        let at =
            |before: &[NodeCondition], now: &str| updated_conditions(before, &lifecycle, reports_images, now);
        conditions = at(&conditions, "2030-01-01T00:00:00Z");
        let again = at(&conditions, "2031-01-01T00:00:00Z");
        assert_eq!(again, conditions, "a repeated phase changes nothing");
    }
    let set = conditions.iter().filter(|condition| condition.status != FALSE);
    set.map(|condition| format!("{}={} ({})", condition.kind, condition.status, condition.reason)).collect()
}

#[test]
fn staged_update_sets_conditions_step_by_step() {
    let target = || desired("b");
    let draining = || DaemonPhase::Draining { target: target(), next: AfterDrain::Unlock, is_overdue: false };
    let rebooting = || DaemonPhase::Rebooting { target: target(), inhibited_by: None };
    let preparing = || DaemonPhase::Preparing { target: target() };
    assert_eq!(through([DaemonPhase::Done]), ["Updated=True (Updated)"]);
    assert!(through([DaemonPhase::Done, preparing()]).is_empty());
    let drained = ["UpdatePrepared=True (UpdatePrepared)", "UpdateExecuted=Unknown (Drained)"];
    assert_eq!(through([DaemonPhase::Done, preparing(), draining()]), drained);
    let armed = [
        "UpdatePrepared=True (UpdatePrepared)",
        "UpdateExecuted=True (UpdateExecuted)",
        "AppliedFilesAndOS=True (UpdateExecutedAppliedFilesAndOS)",
        "RebootedNode=Unknown (RebootedNode)",
    ];
    assert_eq!(through([preparing(), draining(), rebooting()]), armed);
    let booted = through([preparing(), draining(), rebooting(), DaemonPhase::Verifying]);
    assert!(booted.contains(&"RebootedNode=True (RebootedNode)".to_owned()), "{booted:?}");
    let done = through([preparing(), draining(), rebooting(), DaemonPhase::Verifying, DaemonPhase::Done]);
    assert_eq!(done, ["Updated=True (Updated)"]);
}

#[test]
fn live_update_sets_no_reboot_condition() {
    let applying = DaemonPhase::Applying { target: desired("b") };
    let phases = [DaemonPhase::Preparing { target: desired("b") }, applying, DaemonPhase::Verifying];
    let expected = [
        "UpdatePrepared=True (UpdatePrepared)",
        "UpdateExecuted=True (UpdateExecuted)",
        "AppliedFilesAndOS=True (UpdateExecutedAppliedFilesAndOS)",
        "UpdatePostActionComplete=True (None)",
    ];
    assert_eq!(through(phases), expected);
}

#[test]
fn config_that_is_refused_is_not_known_to_be_prepared() {
    let failed = |class| DaemonPhase::BackingOff { problem: DaemonProblem { class, reason: "x".into() } };
    let preparing = || DaemonPhase::Preparing { target: desired("c") };
    let after = |class| through([DaemonPhase::Done, preparing(), failed(class)]);
    let degraded = "NodeDegraded=True (NodeDegraded)";
    assert_eq!(after(ProblemClass::Configuration), ["UpdatePrepared=Unknown (UpdatePrepared)", degraded]);
    assert_eq!(after(ProblemClass::Host), [degraded]);
}

#[test]
fn drifted_node_is_not_updated_until_it_is_done() {
    let drifted = || DaemonPhase::Drifted { reason: "/etc/a".into() };
    assert_eq!(through([DaemonPhase::Done, drifted()]), ["NodeDegraded=True (NodeDegraded)"]);
    assert_eq!(through([DaemonPhase::Done, drifted(), DaemonPhase::Done]), ["Updated=True (Updated)"]);
}

#[test]
fn cluster_that_reports_images_gets_files_and_image_apart() {
    let target = || desired("b");
    let preparing = || DaemonPhase::Preparing { target: target() };
    let rebooting = DaemonPhase::Rebooting { target: target(), inhibited_by: None };
    let staged = recorded([preparing(), rebooting, DaemonPhase::Verifying], true);
    let of_executed = |kind: &str| format!("{kind}=True (UpdateExecuted{kind})");
    for kind in ["AppliedFiles", "AppliedOSImage"] {
        assert!(staged.contains(&of_executed(kind)), "{kind}: {staged:?}");
    }
    let applying = DaemonPhase::Applying { target: target() };
    let live = recorded([preparing(), applying, DaemonPhase::Verifying], true);
    assert!(live.contains(&of_executed("AppliedFiles")), "{live:?}");
    assert!(!live.iter().any(|condition| condition.starts_with("AppliedOSImage")), "{live:?}");
    assert!(!live.iter().any(|condition| condition.starts_with("AppliedFilesAndOS")), "{live:?}");
    let of_gate = updated_conditions(&[], &Lifecycle::default(), true, "2030-01-01T00:00:00Z");
    assert!(have_image_types(&of_gate) && of_gate.len() <= 20, "the resource allows 20 conditions");
    assert!(!have_image_types(&updated_conditions(&[], &Lifecycle::default(), false, "")));
}

#[test]
fn node_whose_trust_material_fails_is_not_updated() {
    let problem = DaemonProblem { class: ProblemClass::Host, reason: "x".into() };
    let failure = TrustFailure { problem, failures: 1, is_of_restart: false };
    let done = Lifecycle { phase: DaemonPhase::Done, current: Some(desired("b")), ..Lifecycle::default() };
    let failed = Lifecycle { trust_failure: Some(failure), ..done.clone() };
    let status = |conditions: &[NodeCondition], kind: &str| {
        conditions.iter().find(|condition| condition.kind == kind).map(|condition| condition.status.clone())
    };
    let mut conditions = Vec::new();
    for (lifecycle, updated, degraded) in [(&done, TRUE, FALSE), (&failed, FALSE, TRUE), (&done, TRUE, FALSE)]
    {
        conditions = updated_conditions(&conditions, lifecycle, false, "2030-01-01T00:00:00Z");
        assert_eq!(status(&conditions, UPDATED).as_deref(), Some(updated));
        assert_eq!(status(&conditions, DEGRADED).as_deref(), Some(degraded));
        let again = updated_conditions(&conditions, lifecycle, false, "2031-01-01T00:00:00Z");
        assert_eq!(again, conditions, "a repeated publication changes nothing");
    }
}
