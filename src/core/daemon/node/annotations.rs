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
        // It serves until it is disrupted, and the next window may be days away.
        DaemonPhase::AwaitingGrant { wait: Some(_), is_requested: false, .. } if is_away => {
            set(DESIRED_DRAIN, &uncordon(current, node));
        }
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
                // Without it, the config alone would desire the image without the layers.
                if let Some(image) = current.image.as_ref().filter(|_| !node.contains_key(DESIRED_IMAGE)) {
                    set(DESIRED_IMAGE, image);
                }
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
mod tests;
