//! Annotations of the phases, and the desired config that they name.

use std::time::Duration;

use super::*;
use crate::core::daemon::grant::{GrantDelay, GrantWait};
use crate::core::daemon::lifecycle::{AfterDrain, DaemonEvent, DaemonProblem, ProblemClass, TrustFailure};
use crate::core::trust::document::TrustVersion;

fn config_ref(config: &str) -> ConfigRef {
    ConfigRef { config: config.into(), image: None, digest: None }
}

fn node(pairs: &[(&str, &str)]) -> NodeAnnotations {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn at(phase: DaemonPhase) -> Lifecycle {
    Lifecycle {
        phase,
        desired: Some(config_ref("b")),
        current: Some(config_ref("a")),
        ..Lifecycle::default()
    }
}

fn written(phase: DaemonPhase, before: &[(&str, &str)]) -> Vec<(String, Option<String>)> {
    let short = |key: String| key.rsplit('/').next().unwrap_or_default().to_owned();
    let changes = annotation_changes(&at(phase), &node(before), &NodeAnnotations::new());
    changes.into_iter().map(|(key, value)| (short(key), value)).collect()
}

fn set(key: &str, value: &str) -> (String, Option<String>) {
    (key.into(), Some(value.into()))
}

#[test]
fn each_phase_writes_the_annotations_of_mcd() {
    let idle: &[(&str, &str)] =
        &[(CURRENT_CONFIG, "a"), (DESIRED_CONFIG, "b"), (STATE, "Done"), (REASON, "")];
    let target = config_ref("b");
    let draining =
        DaemonPhase::Draining { target: target.clone(), next: AfterDrain::Unlock, is_overdue: false };
    assert_eq!(written(DaemonPhase::Fetching { target: target.clone() }, idle), []);
    assert_eq!(written(DaemonPhase::Preparing { target: target.clone() }, idle), [set("state", "Working")]);
    let working: &[(&str, &str)] = &[(CURRENT_CONFIG, "a"), (STATE, "Working")];
    assert_eq!(written(draining.clone(), working), [set("desiredDrain", "drain-b")]);
    let single: &[(&str, &str)] = &[(CURRENT_CONFIG, "a"), (STATE, "Working"), (TOPOLOGY, "SingleReplica")];
    assert_eq!(written(draining, single), []);
    let rebooting = DaemonPhase::Rebooting { target: target.clone(), inhibited_by: None };
    assert_eq!(written(rebooting, working), [set("post-config-action", "Rebooting")]);
    let booted: &[(&str, &str)] =
        &[(CURRENT_CONFIG, "b"), (STATE, "Working"), (POST_CONFIG_ACTION, "Rebooting")];
    assert_eq!(written(DaemonPhase::Verifying, booted), [set("post-config-action", "")]);
    assert_eq!(
        written(DaemonPhase::Uncordoning { is_overdue: false }, working),
        [set("desiredDrain", "uncordon-a")]
    );
    let done = [set("desiredConfig", "a"), set("reason", ""), set("state", "Done")];
    assert_eq!(written(DaemonPhase::Done, working), done);
    assert_eq!(written(DaemonPhase::Done, idle), []);
    // A backup of the cluster, taken in the middle of the update, was restored after it.
    let restored: &[(&str, &str)] = &[
        (CURRENT_CONFIG, "0"),
        (DESIRED_CONFIG, "a"),
        (STATE, "Working"),
        (REASON, ""),
        (DESIRED_DRAIN, "drain-a"),
    ];
    let healed = [set("currentConfig", "a"), set("desiredDrain", "uncordon-a"), set("state", "Done")];
    assert_eq!(written(DaemonPhase::Done, restored), healed);
}

#[test]
fn applied_trust_material_is_annotated_in_each_phase() {
    let trust = |rotation: &str| TrustVersion { resource_version: "7".into(), rotation: rotation.into() };
    let node = node(&[(CURRENT_CONFIG, "a"), (STATE, "Done"), (REASON, ""), (OBSERVED_ROTATION, "true")]);
    for phase in [DaemonPhase::Idle, DaemonPhase::Verifying] {
        let lifecycle = |rotation| Lifecycle { trust: Some(trust(rotation)), ..at(phase.clone()) };
        let changes = |rotation| annotation_changes(&lifecycle(rotation), &node, &NodeAnnotations::new());
        assert_eq!(changes("true"), [(TRUST_VERSION.into(), Some("7".into()))].into());
        assert_eq!(changes("").get(OBSERVED_ROTATION), Some(&Some(String::new())));
    }
}

#[test]
fn failure_of_trust_material_degrades_the_node_until_it_is_applied() {
    let idle: &[(&str, &str)] = &[(CURRENT_CONFIG, "a"), (DESIRED_CONFIG, "a"), (STATE, "Done")];
    let failed = |class, failures| Lifecycle {
        trust_failure: Some(TrustFailure {
            problem: DaemonProblem { class, reason: "x".into() },
            failures,
            is_of_restart: false,
        }),
        ..at(DaemonPhase::Done)
    };
    let state = |lifecycle: &Lifecycle| node_state(lifecycle, "Done").map(|(state, _)| state);
    assert_eq!(state(&failed(ProblemClass::Host, 1)), Some("Degraded"));
    assert_eq!(state(&failed(ProblemClass::Transient, 1)), Some("Done"));
    assert_eq!(state(&failed(ProblemClass::Transient, 6)), Some("Degraded"));
    let degraded = failed(ProblemClass::Host, 1);
    let changes = annotation_changes(&degraded, &node(idle), &NodeAnnotations::new());
    assert_eq!(changes.get(REASON), Some(&Some("x".into())));
    let (applied, _) = degraded.step(DaemonEvent::TrustApplied(None));
    assert_eq!(state(&applied), Some("Done"));
}

#[test]
fn degraded_state_lasts_until_done() {
    let degraded: &[(&str, &str)] = &[(CURRENT_CONFIG, "a"), (STATE, "Degraded"), (REASON, "x")];
    assert_eq!(written(DaemonPhase::Preparing { target: config_ref("b") }, degraded), []);
    let waiting =
        |class| DaemonPhase::BackingOff { problem: DaemonProblem { class, reason: "y".repeat(3000) } };
    let unreconcilable = written(waiting(ProblemClass::Configuration), degraded);
    assert_eq!(unreconcilable, [set("reason", &"y".repeat(2000)), set("state", "Unreconcilable")]);
    // The reason is that of the latest attempt, also before a transient problem would be told.
    let transient = written(waiting(ProblemClass::Transient), degraded);
    assert_eq!(transient, [set("reason", &"y".repeat(2000))]);
    let unreconcilable: &[(&str, &str)] = &[(CURRENT_CONFIG, "a"), (STATE, "Unreconcilable")];
    let transient = written(waiting(ProblemClass::Transient), unreconcilable);
    assert_eq!(transient, [set("reason", &"y".repeat(2000)), set("state", "Degraded")]);
    assert_eq!(written(waiting(ProblemClass::Transient), &[(CURRENT_CONFIG, "a")]), []);
}

#[test]
fn blocked_target_uncordons_the_node() {
    let blocked = || DaemonPhase::Blocked { reason: "x".into() };
    let drained: &[(&str, &str)] = &[(CURRENT_CONFIG, "a"), (DESIRED_DRAIN, "drain-b")];
    let expected = [set("desiredDrain", "uncordon-a"), set("reason", "x"), set("state", "Degraded")];
    assert_eq!(written(blocked(), drained), expected);
    let serving: &[(&str, &str)] = &[(CURRENT_CONFIG, "a"), (DESIRED_DRAIN, "uncordon-0")];
    assert_eq!(written(blocked(), serving), expected[1..]);
}

#[test]
fn node_that_was_created_again_keeps_its_layered_image() {
    let current = ConfigRef { image: Some("i".into()), ..config_ref("a") };
    let done = Lifecycle { current: Some(current), ..at(DaemonPhase::Done) };
    let written = annotation_changes(&done, &NodeAnnotations::new(), &NodeAnnotations::new());
    for key in [CURRENT_IMAGE, DESIRED_IMAGE] {
        assert_eq!(written.get(key), Some(&Some("i".to_owned())), "{key}");
    }
    // Where a config is desired, the MCC says which image.
    let written = annotation_changes(&done, &node(&[(DESIRED_CONFIG, "a")]), &NodeAnnotations::new());
    assert_eq!(written.get(DESIRED_IMAGE), None);
}

#[test]
fn drained_node_that_needs_another_grant_is_uncordoned_while_it_waits() {
    let waits_for = GrantWait::Slot { lock: "x".into(), reason: "all slots are held".into() };
    let delay = Some(GrantDelay { waits_for, retry_after: Duration::from_secs(60) });
    let awaiting = |wait: &Option<GrantDelay>, is_requested| {
        let (target, next, wait) = (config_ref("b"), AfterDrain::Unlock, wait.clone());
        DaemonPhase::AwaitingGrant { target, next, wait, is_requested }
    };
    let asked = |phase, request| {
        written(phase, &[(CURRENT_CONFIG, "a"), (STATE, "Working"), (DESIRED_DRAIN, request)])
    };
    assert_eq!(asked(awaiting(&None, true), "drain-b"), [], "it may be granted at once");
    assert_eq!(asked(awaiting(&delay, false), "drain-b"), [set("desiredDrain", "uncordon-a")]);
    for is_requested in [true, false] {
        let again = asked(awaiting(&delay, is_requested), "uncordon-a");
        assert_eq!(again, [], "it is uncordoned over all attempts");
    }
    let (target, next) = (config_ref("b"), AfterDrain::Unlock);
    let draining = DaemonPhase::Draining { target, next, is_overdue: false };
    assert_eq!(asked(draining, "uncordon-a"), [set("desiredDrain", "drain-b")]);
}

#[test]
fn uncordon_of_a_drain_that_was_not_completed_is_another_request_than_the_last() {
    let phase = || DaemonPhase::Uncordoning { is_overdue: false };
    let asked = |drain, last| written(phase(), &[(DESIRED_DRAIN, drain), (LAST_APPLIED_DRAIN, last)]);
    let (usual, again) = ("uncordon-a", "uncordon-a-again");
    assert_eq!(asked("drain-b", "drain-b"), [set("desiredDrain", usual)]);
    assert_eq!(asked("drain-b", usual), [set("desiredDrain", again)]);
    assert_eq!(asked("drain-b", again), [set("desiredDrain", usual)]);
    for request in [usual, again] {
        assert_eq!(asked(request, usual), [], "it is not changed while it is pending");
        let node = |last| node(&[(DESIRED_DRAIN, request), (LAST_APPLIED_DRAIN, last)]);
        assert!(is_uncordoned(&node(request), &config_ref("a")));
        assert!(!is_uncordoned(&node("drain-b"), &config_ref("a")));
    }
}

#[test]
fn drain_is_complete_once_the_controller_answered() {
    let (asked, answered) = ((DESIRED_DRAIN, "drain-b"), (LAST_APPLIED_DRAIN, "drain-b"));
    assert!(!is_drained(&node(&[asked]), &config_ref("b")));
    assert!(!is_drained(&node(&[answered]), &config_ref("b")), "a new drain is requested");
    assert!(is_drained(&node(&[asked, answered]), &config_ref("b")));
    assert!(!is_drained(&node(&[asked, answered]), &config_ref("c")));
    assert!(is_drained(&node(&[(TOPOLOGY, "SingleReplica")]), &config_ref("c")));
}

#[test]
fn seed_applies_until_the_node_is_annotated() {
    let seed = node(&[(CURRENT_CONFIG, "s"), (DESIRED_CONFIG, "s"), (STATE, "Done")]);
    assert_eq!(desired_config(&NodeAnnotations::new(), &seed, None), Some(config_ref("s")));
    let known = node(&[(CURRENT_CONFIG, "a"), (DESIRED_CONFIG, "b"), (DESIRED_IMAGE, "i")]);
    let layered = ConfigRef { image: Some("i".into()), ..config_ref("b") };
    assert_eq!(desired_config(&known, &seed, None), Some(layered));
    assert_eq!(
        desired_config(&NodeAnnotations::new(), &NodeAnnotations::new(), Some(&config_ref("r"))),
        Some(config_ref("r"))
    );
    let changes = annotation_changes(&at(DaemonPhase::Observing), &NodeAnnotations::new(), &seed);
    assert_eq!(changes.get(CURRENT_CONFIG), Some(&Some("s".to_owned())));
}
