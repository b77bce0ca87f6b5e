//! The node's annotations: what is wanted is read from them, and where the daemon stands is written to them.

use std::collections::BTreeMap;

use crate::core::daemon::lifecycle::{ConfigRef, DaemonPhase, Lifecycle, ProblemClass};

/// What the cluster wants.
pub const DESIRED_CONFIG: &str = "machineconfiguration.openshift.io/desiredConfig";
/// The image of on-cluster layering that it wants.
pub const DESIRED_IMAGE: &str = "machineconfiguration.openshift.io/desiredImage";
/// What the node is.
pub const CURRENT_CONFIG: &str = "machineconfiguration.openshift.io/currentConfig";
/// The image of on-cluster layering that it has.
pub const CURRENT_IMAGE: &str = "machineconfiguration.openshift.io/currentImage";
/// `Done`, `Working`, `Degraded` or `Unreconcilable`.
pub const STATE: &str = "machineconfiguration.openshift.io/state";
/// Why it is degraded.
pub const REASON: &str = "machineconfiguration.openshift.io/reason";
/// `Rebooting` from just before a reboot until it is over.
pub const POST_CONFIG_ACTION: &str = "machineconfiguration.openshift.io/post-config-action";
/// What the node asks of the cluster's drain controller.
pub const DESIRED_DRAIN: &str = "machineconfiguration.openshift.io/desiredDrain";
/// What that did last.
pub const LAST_APPLIED_DRAIN: &str = "machineconfiguration.openshift.io/lastAppliedDrain";
/// Why the last shutdown did not lead to what was staged; empty where it did.
pub const FAILED_FINALIZATION: &str = "machineconfiguration.openshift.io/ostree-finalize-staged-failure";
/// Whether there is anywhere for the workload to go.
pub const TOPOLOGY: &str = "machineconfiguration.openshift.io/controlPlaneTopology";

const REBOOTING: &str = "Rebooting";
/// The topology in which a node is never drained.
const SINGLE: &str = "SingleReplica";
/// The most characters of a reason.
const REASON_CHARACTERS: usize = 2000;

/// Annotations by key.
pub type NodeAnnotations = BTreeMap<String, String>;
/// What becomes of annotations: a value, or none at all.
pub type AnnotationChanges = BTreeMap<String, Option<String>>;

/// What is wanted of the node. Until the cluster has said it, what the node was given when it was made is.
#[must_use]
pub fn wish(node: &NodeAnnotations, seed: &NodeAnnotations, runs: Option<&ConfigRef>) -> Option<ConfigRef> {
    let given = |key: &str| {
        let found = node.get(key).filter(|value| !value.is_empty());
        found.or_else(|| seed.get(key).filter(|_| !node.contains_key(CURRENT_CONFIG))).cloned()
    };
    match given(DESIRED_CONFIG) {
        Some(config) => Some(ConfigRef { config, image: given(DESIRED_IMAGE), digest: None }),
        // The cluster lost what it knew of the node, which is right as it is.
        None if !node.contains_key(CURRENT_CONFIG) => {
            runs.map(|runs| ConfigRef { digest: None, ..runs.clone() })
        }
        None => None,
    }
}

/// Whether the node's workload has no place to go, so that it stays.
#[must_use]
pub fn is_alone(node: &NodeAnnotations) -> bool {
    node.get(TOPOLOGY).is_some_and(|topology| topology == SINGLE)
}

/// Whether the workload left for what is worked on.
#[must_use]
pub fn is_drained(node: &NodeAnnotations, target: &ConfigRef) -> bool {
    is_alone(node) || is_answered(node, &drain(target))
}

/// Whether the workload may be on what runs.
#[must_use]
pub fn is_uncordoned(node: &NodeAnnotations, runs: &ConfigRef) -> bool {
    is_answered(node, &uncordon(runs))
}

fn is_answered(node: &NodeAnnotations, request: &str) -> bool {
    [DESIRED_DRAIN, LAST_APPLIED_DRAIN].iter().all(|key| node.get(*key).is_some_and(|value| value == request))
}

fn drain(target: &ConfigRef) -> String {
    format!("drain-{}", target.config)
}

fn uncordon(runs: &ConfigRef) -> String {
    format!("uncordon-{}", runs.config)
}

/// What has to change so that the annotations say where the daemon stands; empty where they do.
#[must_use]
pub fn changes(lifecycle: &Lifecycle, node: &NodeAnnotations, seed: &NodeAnnotations) -> AnnotationChanges {
    let mut wanted = AnnotationChanges::new();
    if !node.contains_key(CURRENT_CONFIG) {
        wanted.extend(seed.iter().map(|(key, value)| (key.clone(), Some(value.clone()))));
    }
    let mut set = |key: &str, value: &str| drop(wanted.insert(key.to_owned(), Some(value.to_owned())));
    let phase = &lifecycle.phase;
    let in_vain = lifecycle.vain_reboot.as_deref().unwrap_or_default();
    if *phase != DaemonPhase::Observing && node.get(FAILED_FINALIZATION).map_or("", String::as_str) != in_vain
    {
        set(FAILED_FINALIZATION, &short(in_vain));
    }
    let is_degraded = node.get(STATE).is_some_and(|state| state == "Degraded" || state == "Unreconcilable");
    if let Some((state, reason)) = trouble(lifecycle) {
        set(STATE, state);
        set(REASON, &short(&reason));
    } else if is_at_work(phase) && !is_degraded {
        set(STATE, "Working");
    }
    match phase {
        DaemonPhase::Draining { target, .. } if !is_alone(node) => set(DESIRED_DRAIN, &drain(target)),
        DaemonPhase::Rebooting { .. } => set(POST_CONFIG_ACTION, REBOOTING),
        DaemonPhase::CheckingBoot { .. } | DaemonPhase::Verifying | DaemonPhase::Drifted { .. }
            if node.get(POST_CONFIG_ACTION).is_some_and(|action| !action.is_empty()) =>
        {
            set(POST_CONFIG_ACTION, "");
        }
        _ => {}
    }
    if let Some(runs) = &lifecycle.runs {
        let is_away = node.get(DESIRED_DRAIN).is_some_and(|request| request.starts_with("drain-"));
        match phase {
            DaemonPhase::Uncordoning { .. } => set(DESIRED_DRAIN, &uncordon(runs)),
            // What runs serves: a node that stays cordoned keeps its whole pool waiting.
            DaemonPhase::Blocked { .. } => {
                if is_away {
                    set(DESIRED_DRAIN, &uncordon(runs));
                }
                set(CURRENT_CONFIG, &runs.config);
                wanted.insert(CURRENT_IMAGE.to_owned(), runs.image.clone());
            }
            DaemonPhase::Done => {
                set(STATE, "Done");
                set(REASON, "");
                set(CURRENT_CONFIG, &runs.config);
                if !node.contains_key(DESIRED_CONFIG) {
                    set(DESIRED_CONFIG, &runs.config);
                }
                wanted.insert(CURRENT_IMAGE.to_owned(), runs.image.clone());
                if node.get(DESIRED_IMAGE).is_some_and(String::is_empty) {
                    wanted.insert(DESIRED_IMAGE.to_owned(), None);
                }
            }
            _ => {}
        }
    }
    wanted.retain(|key, value| node.get(key) != value.as_ref());
    wanted
}

fn is_at_work(phase: &DaemonPhase) -> bool {
    matches!(
        phase,
        DaemonPhase::Preparing { .. }
            | DaemonPhase::Draining { .. }
            | DaemonPhase::Applying { .. }
            | DaemonPhase::Unlocking { .. }
            | DaemonPhase::Rebooting { .. }
            | DaemonPhase::ShuttingDown { .. }
    )
}

/// The state that says so, and why, where people have to be told of something.
#[must_use]
pub fn trouble(lifecycle: &Lifecycle) -> Option<(&'static str, String)> {
    let phase = &lifecycle.phase;
    let is_told = match phase {
        DaemonPhase::BackingOff { problem } => problem.class.is_told_after(lifecycle.failures),
        DaemonPhase::Draining { is_late, .. } | DaemonPhase::Uncordoning { is_late } => *is_late,
        DaemonPhase::Drifted { .. } | DaemonPhase::Blocked { .. } => true,
        _ => false,
    };
    let state = match phase {
        DaemonPhase::BackingOff { problem } if problem.class == ProblemClass::Configuration => {
            "Unreconcilable"
        }
        _ => "Degraded",
    };
    phase.reason().filter(|_| is_told).map(|reason| (state, reason))
}

fn short(reason: &str) -> String {
    reason.chars().take(REASON_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::daemon::lifecycle::{AfterDrain, DaemonProblem};

    fn wish_for(config: &str) -> ConfigRef {
        ConfigRef { config: config.into(), image: None, digest: None }
    }

    fn node(pairs: &[(&str, &str)]) -> NodeAnnotations {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn at(phase: DaemonPhase) -> Lifecycle {
        Lifecycle { phase, wish: Some(wish_for("b")), runs: Some(wish_for("a")), ..Lifecycle::default() }
    }

    fn written(phase: DaemonPhase, before: &[(&str, &str)]) -> Vec<(String, Option<String>)> {
        let short = |key: String| key.rsplit('/').next().unwrap_or_default().to_owned();
        let changes = changes(&at(phase), &node(before), &NodeAnnotations::new());
        changes.into_iter().map(|(key, value)| (short(key), value)).collect()
    }

    fn set(key: &str, value: &str) -> (String, Option<String>) {
        (key.into(), Some(value.into()))
    }

    #[test]
    fn each_phase_writes_what_the_controllers_wait_for() {
        let idle: &[(&str, &str)] =
            &[(CURRENT_CONFIG, "a"), (DESIRED_CONFIG, "b"), (STATE, "Done"), (REASON, "")];
        let target = wish_for("b");
        let draining =
            DaemonPhase::Draining { target: target.clone(), then: AfterDrain::Unlock, is_late: false };
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
        let rebooting = DaemonPhase::Rebooting { target: target.clone(), blocked_by: None };
        assert_eq!(written(rebooting, working), [set("post-config-action", "Rebooting")]);
        let booted: &[(&str, &str)] =
            &[(CURRENT_CONFIG, "b"), (STATE, "Working"), (POST_CONFIG_ACTION, "Rebooting")];
        assert_eq!(written(DaemonPhase::Verifying, booted), [set("post-config-action", "")]);
        assert_eq!(
            written(DaemonPhase::Uncordoning { is_late: false }, working),
            [set("desiredDrain", "uncordon-a")]
        );
        let done = [set("desiredConfig", "a"), set("reason", ""), set("state", "Done")];
        assert_eq!(written(DaemonPhase::Done, working), done);
        assert_eq!(written(DaemonPhase::Done, idle), []);
    }

    #[test]
    fn what_is_degraded_stays_so_until_it_is_done() {
        let degraded: &[(&str, &str)] = &[(CURRENT_CONFIG, "a"), (STATE, "Degraded"), (REASON, "x")];
        assert_eq!(written(DaemonPhase::Preparing { target: wish_for("b") }, degraded), []);
        let waiting =
            |class| DaemonPhase::BackingOff { problem: DaemonProblem { class, reason: "y".repeat(3000) } };
        let unreconcilable = written(waiting(ProblemClass::Configuration), degraded);
        assert_eq!(unreconcilable, [set("reason", &"y".repeat(2000)), set("state", "Unreconcilable")]);
        assert_eq!(written(waiting(ProblemClass::Transient), degraded), []);
    }

    #[test]
    fn what_is_held_gives_the_node_back() {
        let held = || DaemonPhase::Blocked { reason: "x".into() };
        let drained: &[(&str, &str)] = &[(CURRENT_CONFIG, "a"), (DESIRED_DRAIN, "drain-b")];
        let expected = [set("desiredDrain", "uncordon-a"), set("reason", "x"), set("state", "Degraded")];
        assert_eq!(written(held(), drained), expected);
        let serving: &[(&str, &str)] = &[(CURRENT_CONFIG, "a"), (DESIRED_DRAIN, "uncordon-0")];
        assert_eq!(written(held(), serving), expected[1..]);
    }

    #[test]
    fn a_drain_is_over_once_it_is_answered() {
        let (asked, answered) = ((DESIRED_DRAIN, "drain-b"), (LAST_APPLIED_DRAIN, "drain-b"));
        assert!(!is_drained(&node(&[asked]), &wish_for("b")));
        assert!(!is_drained(&node(&[answered]), &wish_for("b")), "it is asked for anew");
        assert!(is_drained(&node(&[asked, answered]), &wish_for("b")));
        assert!(!is_drained(&node(&[asked, answered]), &wish_for("c")));
        assert!(is_drained(&node(&[(TOPOLOGY, "SingleReplica")]), &wish_for("c")));
    }

    #[test]
    fn the_seed_holds_until_the_cluster_knows_the_node() {
        let seed = node(&[(CURRENT_CONFIG, "s"), (DESIRED_CONFIG, "s"), (STATE, "Done")]);
        assert_eq!(wish(&NodeAnnotations::new(), &seed, None), Some(wish_for("s")));
        let known = node(&[(CURRENT_CONFIG, "a"), (DESIRED_CONFIG, "b"), (DESIRED_IMAGE, "i")]);
        let layered = ConfigRef { image: Some("i".into()), ..wish_for("b") };
        assert_eq!(wish(&known, &seed, None), Some(layered));
        assert_eq!(
            wish(&NodeAnnotations::new(), &NodeAnnotations::new(), Some(&wish_for("r"))),
            Some(wish_for("r"))
        );
        let changes = changes(&at(DaemonPhase::Observing), &NodeAnnotations::new(), &seed);
        assert_eq!(changes.get(CURRENT_CONFIG), Some(&Some("s".to_owned())));
    }
}
