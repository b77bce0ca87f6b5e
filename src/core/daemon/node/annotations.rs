//! Annotations of the node: the desired config is read from them; phase, current config and requests for
//! drain and uncordon are written to them.

use std::collections::BTreeMap;

use super::node_state::node_state;
use crate::core::daemon::lifecycle::{ConfigRef, DaemonPhase, Lifecycle};
use crate::core::values::foreign_text::harmless_line;

/// Desired config, set by the machine-config-controller.
pub const DESIRED_CONFIG: &str = "machineconfiguration.openshift.io/desiredConfig";
/// Desired image of on-cluster layering.
pub const DESIRED_IMAGE: &str = "machineconfiguration.openshift.io/desiredImage";
/// Current config, set by the agent.
pub const CURRENT_CONFIG: &str = "machineconfiguration.openshift.io/currentConfig";
/// Current image of on-cluster layering.
pub const CURRENT_IMAGE: &str = "machineconfiguration.openshift.io/currentImage";
/// `Done`, `Working`, `Degraded` or `Unreconcilable`.
pub const STATE: &str = "machineconfiguration.openshift.io/state";
/// Reason for `Degraded` or `Unreconcilable`.
pub const REASON: &str = "machineconfiguration.openshift.io/reason";
/// `Rebooting` from just before a reboot until after the boot.
pub const POST_CONFIG_ACTION: &str = "machineconfiguration.openshift.io/post-config-action";
/// Agent's request to the cluster's drain controller: `drain-CONFIG` or `uncordon-CONFIG`.
pub const DESIRED_DRAIN: &str = "machineconfiguration.openshift.io/desiredDrain";
/// Last request that the drain controller completed.
pub const LAST_APPLIED_DRAIN: &str = "machineconfiguration.openshift.io/lastAppliedDrain";
/// Reason why the last shutdown did not finalize the staged deployment; empty where it did.
pub const FINALIZE_FAILURE: &str = "machineconfiguration.openshift.io/ostree-finalize-staged-failure";
/// Topology of the control plane; `SingleReplica` leaves no other node to drain to.
pub const TOPOLOGY: &str = "machineconfiguration.openshift.io/controlPlaneTopology";

/// Resource version of the ControllerConfig whose trust material is applied.
pub const TRUST_VERSION: &str = "machineconfiguration.openshift.io/lastSyncedControllerConfigResourceVersion";
/// Rotation of the API server's CA that the node has followed: the value of the ControllerConfig's annotation.
pub const OBSERVED_ROTATION: &str = "machineconfiguration.openshift.io/lastObservedServerCAAnnotation";

/// Request of an operator to release the blocked target, and to try it again. The agent removes it.
pub const RETRY: &str = "flameholder/retry";

/// Reason for the state of a node whose desired config neither the Node, nor Ignition's seed, nor a record on the
/// host names.
pub const NO_DESIRED_CONFIG: &str = "this host has no record of an applied config, and neither its Node nor \
    /etc/machine-config-daemon/node-annotations.json names a desired one: run `flameholder adopt` on a host that the \
    machine-config-daemon configured, or `flameholder firstboot` on one that only Ignition configured";

const REBOOTING: &str = "Rebooting";
/// Topology in which a node is never drained.
const SINGLE: &str = "SingleReplica";
/// Maximum length of a reason, in characters.
const REASON_CHARACTERS: usize = 2000;

/// Annotations by key.
pub type NodeAnnotations = BTreeMap<String, String>;
/// Changes to annotations by key: a new value, or `None` to remove the annotation.
pub type AnnotationChanges = BTreeMap<String, Option<String>>;

/// Return the node's desired config. Until the node is annotated, `seed` applies: the annotations that the
/// config server sent to the new machine.
#[must_use]
pub fn desired_config(
    node: &NodeAnnotations,
    seed: &NodeAnnotations,
    current: Option<&ConfigRef>,
) -> Option<ConfigRef> {
    let given = |key: &str| {
        let found = node.get(key).filter(|value| !value.is_empty());
        found.or_else(|| seed.get(key).filter(|_| !node.contains_key(CURRENT_CONFIG))).cloned()
    };
    match given(DESIRED_CONFIG) {
        Some(config) => Some(ConfigRef { config: config.into(), image: given(DESIRED_IMAGE), digest: None }),
        // The cluster lost the node's annotations: keep the current config until the controller sets them
        // again.
        None if !node.contains_key(CURRENT_CONFIG) => {
            current.map(|current| ConfigRef { digest: None, ..current.clone() })
        }
        None => None,
    }
}

/// Return true if the node is the only one, so that a drain is impossible and left out.
#[must_use]
pub fn is_single_node(node: &NodeAnnotations) -> bool {
    node.get(TOPOLOGY).is_some_and(|topology| topology == SINGLE)
}

/// Return true if the drain for `target` is complete, or none is needed.
#[must_use]
pub fn is_drained(node: &NodeAnnotations, target: &ConfigRef) -> bool {
    is_single_node(node) || is_answered(node, &drain(target))
}

/// Return true if the uncordon with `current` is complete.
#[must_use]
pub fn is_uncordoned(node: &NodeAnnotations, current: &ConfigRef) -> bool {
    uncordon_requests(current).iter().any(|request| is_answered(node, request))
}

fn is_answered(node: &NodeAnnotations, request: &str) -> bool {
    [DESIRED_DRAIN, LAST_APPLIED_DRAIN].iter().all(|key| node.get(*key).is_some_and(|value| value == request))
}

fn drain(target: &ConfigRef) -> String {
    format!("drain-{}", target.config)
}

/// Return both spellings of the request to uncordon the node. The controller reads the word before the first `-`.
fn uncordon_requests(current: &ConfigRef) -> [String; 2] {
    ["", "-again"].map(|suffix| format!("uncordon-{}{suffix}", current.config))
}

/// Return the request to uncordon the node. The controller ignores one that it completed last. After a drain that it has begun
/// and not completed, the node is cordoned nevertheless: the other spelling of the same request is new to it.
fn uncordon(current: &ConfigRef, node: &NodeAnnotations) -> String {
    let [usual, again] = uncordon_requests(current);
    let asked = node.get(DESIRED_DRAIN);
    if asked.is_some_and(|asked| [&usual, &again].contains(&asked)) {
        return asked.cloned().unwrap_or(usual);
    }
    if node.get(LAST_APPLIED_DRAIN) == Some(&usual) { again } else { usual }
}

/// Return the changes that make the annotations match the daemon's phase; empty if they match.
#[must_use]
pub fn annotation_changes(
    lifecycle: &Lifecycle,
    node: &NodeAnnotations,
    seed: &NodeAnnotations,
) -> AnnotationChanges {
    let mut desired = AnnotationChanges::new();
    if !node.contains_key(CURRENT_CONFIG) {
        desired.extend(seed.iter().map(|(key, value)| (key.clone(), Some(value.clone()))));
    }
    let mut set = |key: &str, value: &str| drop(desired.insert(key.to_owned(), Some(value.to_owned())));
    let phase = &lifecycle.phase;
    let in_vain = lifecycle.finalize_failure.as_deref().unwrap_or_default();
    if *phase != DaemonPhase::Observing && node.get(FINALIZE_FAILURE).map_or("", String::as_str) != in_vain {
        set(FINALIZE_FAILURE, &truncate_reason(in_vain));
    }
    if let Some((state, reason)) = node_state(lifecycle, node.get(STATE).map_or("", String::as_str)) {
        set(STATE, state);
        if let Some(reason) = reason {
            set(REASON, &truncate_reason(&reason));
        }
    }
    match phase {
        DaemonPhase::Draining { target, .. } if !is_single_node(node) => set(DESIRED_DRAIN, &drain(target)),
        DaemonPhase::Rebooting { .. } => set(POST_CONFIG_ACTION, REBOOTING),
        DaemonPhase::CheckingBoot { .. }
        | DaemonPhase::RollingBack { .. }
        | DaemonPhase::Verifying
        | DaemonPhase::Drifted { .. }
            if node.get(POST_CONFIG_ACTION).is_some_and(|action| !action.is_empty()) =>
        {
            set(POST_CONFIG_ACTION, "");
        }
        _ => {}
    }
    if let Some(trust) = &lifecycle.trust {
        set(TRUST_VERSION, &trust.resource_version);
        if node.get(OBSERVED_ROTATION).map_or("", String::as_str) != trust.rotation {
            set(OBSERVED_ROTATION, &trust.rotation);
        }
    }
    if let Some(current) = &lifecycle.current {
        desired.extend(current_config_changes(phase, current, node));
    }
    desired.retain(|key, value| node.get(key) != value.as_ref());
    desired
}

/// Return the annotations that report the current config, and ask the MCC to uncordon the node.
fn current_config_changes(
    phase: &DaemonPhase,
    current: &ConfigRef,
    node: &NodeAnnotations,
) -> AnnotationChanges {
    let mut desired = AnnotationChanges::new();
    let mut set = |key: &str, value: &str| drop(desired.insert(key.to_owned(), Some(value.to_owned())));
    let is_away = node.get(DESIRED_DRAIN).is_some_and(|request| request.starts_with("drain-"));
    match phase {
        DaemonPhase::Uncordoning { .. } => set(DESIRED_DRAIN, &uncordon(current, node)),
        // The current config is fit for work, and a node that stays cordoned would stop the update of its
        // whole pool.
        DaemonPhase::Blocked { .. } => {
            if is_away {
                set(DESIRED_DRAIN, &uncordon(current, node));
            }
            set(CURRENT_CONFIG, current.config.as_str());
            desired.insert(CURRENT_IMAGE.to_owned(), current.image.clone());
        }
        DaemonPhase::Done => {
            // Done comes after the uncordon: the request is that of a cluster that was restored from a backup.
            if is_away {
                set(DESIRED_DRAIN, &uncordon(current, node));
            }
            set(CURRENT_CONFIG, current.config.as_str());
            if !node.contains_key(DESIRED_CONFIG) {
                set(DESIRED_CONFIG, current.config.as_str());
            }
            desired.insert(CURRENT_IMAGE.to_owned(), current.image.clone());
            if node.get(DESIRED_IMAGE).is_some_and(String::is_empty) {
                desired.insert(DESIRED_IMAGE.to_owned(), None);
            }
        }
        _ => {}
    }
    desired
}

fn truncate_reason(reason: &str) -> String {
    harmless_line(reason).chars().take(REASON_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::daemon::lifecycle::{
        AfterDrain, DaemonEvent, DaemonProblem, ProblemClass, TrustFailure,
    };
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
        assert_eq!(
            written(DaemonPhase::Preparing { target: target.clone() }, idle),
            [set("state", "Working")]
        );
        let working: &[(&str, &str)] = &[(CURRENT_CONFIG, "a"), (STATE, "Working")];
        assert_eq!(written(draining.clone(), working), [set("desiredDrain", "drain-b")]);
        let single: &[(&str, &str)] =
            &[(CURRENT_CONFIG, "a"), (STATE, "Working"), (TOPOLOGY, "SingleReplica")];
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
}
