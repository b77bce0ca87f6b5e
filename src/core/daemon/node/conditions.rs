//! Conditions of the node's `MachineConfigNode`: progress of an update (prepared, cordoned, drained,
//! rebooted, uncordoned), read by administrators and by MCO.
//!
//! The conditions are a history: each phase adds its own, and a change of `Updated` starts over.

use serde::{Deserialize, Serialize};

use super::node_state;
use super::node_state::{is_degraded, node_state};
use crate::core::daemon::lifecycle::{AfterDrain, DaemonPhase, Lifecycle, ProblemClass};
use crate::core::pinned_images::pin_state::PinState;
use crate::core::values::foreign_text::harmless_line;

/// Maximum length of a message, in characters (limit of the resource).
const MESSAGE_CHARACTERS: usize = 32_768;

/// Condition of a `MachineConfigNode`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeCondition {
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Reason, as one CamelCase word.
    pub reason: String,
    pub message: String,
    /// RFC 3339 time of the last change of `status`.
    pub last_transition_time: String,
}

/// Condition types that exist from the beginning.
const TYPES: [&str; 14] = [
    UPDATED,
    PREPARED,
    EXECUTED,
    CORDONED,
    DRAINED,
    APPLIED,
    POST_ACTION,
    REBOOTED,
    COMPLETE,
    UNCORDONED,
    RESUMED,
    DEGRADED,
    PINS_PROGRESSING,
    PINS_DEGRADED,
];
const UPDATED: &str = "Updated";
const PREPARED: &str = "UpdatePrepared";
const EXECUTED: &str = "UpdateExecuted";
const CORDONED: &str = "Cordoned";
const DRAINED: &str = "Drained";
const APPLIED: &str = "AppliedFilesAndOS";
const APPLIED_FILES: &str = "AppliedFiles";
const APPLIED_IMAGE: &str = "AppliedOSImage";
const PULLED: &str = "ImagePulledFromRegistry";
const POST_ACTION: &str = "UpdatePostActionComplete";
const REBOOTED: &str = "RebootedNode";
const COMPLETE: &str = "UpdateComplete";
const UNCORDONED: &str = "Uncordoned";
const RESUMED: &str = "Resumed";
const DEGRADED: &str = "NodeDegraded";
const PINS_PROGRESSING: &str = "PinnedImageSetsProgressing";
const PINS_DEGRADED: &str = "PinnedImageSetsDegraded";
/// Conditions that are not part of an update's history.
const LASTING: [&str; 3] = [DEGRADED, PINS_PROGRESSING, PINS_DEGRADED];

const TRUE: &str = "True";
const FALSE: &str = "False";
const UNKNOWN: &str = "Unknown";
/// Reason of a condition that has not occurred.
const NOT_YET: &str = "NotYetOccurred";

/// Types of a cluster that reports images, in place of [`APPLIED`].
const IMAGE_TYPES: [&str; 3] = [APPLIED_FILES, APPLIED_IMAGE, PULLED];

/// Return true if a controller wrote the types of a cluster that reports images (feature gate
/// `ImageModeStatusReporting`).
#[must_use]
pub fn have_image_types(conditions: &[NodeCondition]) -> bool {
    conditions.iter().any(|condition| IMAGE_TYPES.contains(&condition.kind.as_str()))
}

/// Return the conditions of the daemon's phase, based on those before; unchanged if they match.
/// `reports_images` selects the types of a cluster that reports files and OS image apart.
#[must_use]
pub fn updated_conditions(
    before: &[NodeCondition],
    lifecycle: &Lifecycle,
    reports_images: bool,
    now: &str,
) -> Vec<NodeCondition> {
    let mut history = History { conditions: before.to_vec(), reports_images, now };
    let types = TYPES.iter().flat_map(|kind| match *kind {
        APPLIED if reports_images => &IMAGE_TYPES,
        _ => std::slice::from_ref(kind),
    });
    for kind in types.copied() {
        if history.find(kind).is_none() {
            history.add(kind, FALSE, NOT_YET, "this condition has not occurred yet");
        }
    }
    history.record(lifecycle);
    if let Some(pins) = &lifecycle.pins {
        history.record_pins(pins);
    }
    history.conditions
}

struct History<'a> {
    conditions: Vec<NodeCondition>,
    reports_images: bool,
    now: &'a str,
}

impl History<'_> {
    fn find(&self, kind: &str) -> Option<&NodeCondition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }

    fn is(&self, kind: &str, status: &str) -> bool {
        self.find(kind).is_some_and(|condition| condition.status == status)
    }

    fn add(&mut self, kind: &str, status: &str, reason: &str, message: &str) {
        self.conditions.push(NodeCondition {
            kind: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            last_transition_time: self.now.to_owned(),
        });
    }

    /// Set a condition; its transition time changes only with its status.
    fn set(&mut self, kind: &str, status: &str, reason: &str, message: &str) {
        let message: String = harmless_line(message).chars().take(MESSAGE_CHARACTERS).collect();
        let Some(condition) = self.conditions.iter_mut().find(|condition| condition.kind == kind) else {
            return self.add(kind, status, reason, &message);
        };
        if condition.status != status {
            self.now.clone_into(&mut condition.last_transition_time);
        }
        status.clone_into(&mut condition.status);
        reason.clone_into(&mut condition.reason);
        condition.message = message;
    }

    /// Set a condition of the update's execution; the reason names both, as MCD does.
    fn set_part(&mut self, kind: &str, status: &str, message: &str) {
        self.set(kind, status, &format!("{EXECUTED}{kind}"), message);
    }

    /// Set `Updated` and start a new history: all conditions of the previous update become false.
    fn set_updated(&mut self, status: &str, message: &str) {
        let message = &harmless_line(message);
        if self.find(UPDATED).is_some_and(|now| now.status == status && now.message == *message) {
            return;
        }
        self.set(UPDATED, status, UPDATED, message);
        let now = self.now;
        for condition in &mut self.conditions {
            let is_past = condition.kind != UPDATED && !LASTING.contains(&condition.kind.as_str());
            if is_past && condition.status != FALSE {
                condition.message = format!("{message}; previously: {}", condition.message);
                FALSE.clone_into(&mut condition.status);
                now.clone_into(&mut condition.last_transition_time);
            }
        }
    }

    /// Record if the node is degraded, and return it.
    fn record_state(&mut self, lifecycle: &Lifecycle) -> bool {
        let published = if self.is(DEGRADED, TRUE) { node_state::DEGRADED } else { "" };
        let state = node_state(lifecycle, published);
        let is_degraded = state.as_ref().is_some_and(|(state, _)| is_degraded(state));
        match state {
            Some((_, Some(reason))) if is_degraded => {
                // MCO's controllers count an updated node before they look whether it is degraded.
                if self.is(UPDATED, TRUE) {
                    self.set_updated(FALSE, &not_updated(lifecycle));
                }
                self.set(DEGRADED, TRUE, DEGRADED, &reason);
            }
            _ if lifecycle.phase == DaemonPhase::Done && !self.is(DEGRADED, FALSE) => {
                self.set(DEGRADED, FALSE, DEGRADED, "the node is healthy");
            }
            _ => {}
        }
        is_degraded
    }

    fn record(&mut self, lifecycle: &Lifecycle) {
        let is_degraded = self.record_state(lifecycle);
        match &lifecycle.phase {
            DaemonPhase::Preparing { target } => {
                self.set_updated(FALSE, &format!("updating the node to {}", target.config));
            }
            // A config that cannot be applied to this node; of other failures nothing is known about the target.
            DaemonPhase::BackingOff { problem } if problem.class == ProblemClass::Configuration => {
                self.set(PREPARED, UNKNOWN, PREPARED, &problem.reason);
            }
            DaemonPhase::AwaitingGrant { target, .. } => {
                self.prepared(target.config.as_str());
                let message = lifecycle.phase.reason();
                let message = message.unwrap_or_else(|| "the reboot policy is asked for a grant".to_owned());
                self.set(EXECUTED, FALSE, EXECUTED, &message);
            }
            DaemonPhase::Draining { target, next, is_overdue: false } => {
                self.prepared(target.config.as_str());
                let message = format!("draining the node for {}", target.config);
                self.set(EXECUTED, UNKNOWN, DRAINED, &message);
                if *next == AfterDrain::Apply {
                    self.set(POST_ACTION, UNKNOWN, POST_ACTION, "no reboot is needed");
                }
            }
            DaemonPhase::Applying { target } => {
                self.prepared(target.config.as_str());
                if self.is(DRAINED, FALSE) {
                    self.set_part(DRAINED, FALSE, "no drain is needed");
                }
                let message = format!("applying {}", target.config);
                // A live update changes files only.
                let part = if self.reports_images { APPLIED_FILES } else { APPLIED };
                self.set(EXECUTED, UNKNOWN, part, &message);
                self.set_part(part, UNKNOWN, &message);
            }
            // The deployment is unlocked: the update is on disk, and the reboot will activate it.
            DaemonPhase::Rebooting { target, .. } => {
                let parts: &[&str] =
                    if self.reports_images { &[APPLIED_FILES, APPLIED_IMAGE] } else { &[APPLIED] };
                self.applied(target.config.as_str(), parts);
                self.set(REBOOTED, UNKNOWN, REBOOTED, &format!("rebooting the node into {}", target.config));
            }
            DaemonPhase::CheckingBoot { .. } | DaemonPhase::RollingBack { .. } | DaemonPhase::Verifying => {
                self.finished(lifecycle);
            }
            DaemonPhase::Uncordoning { is_overdue: false } => {
                self.set(RESUMED, TRUE, RESUMED, "the current config is verified");
            }
            DaemonPhase::Done if !is_degraded => {
                let current = lifecycle.current.as_ref().map_or("", |current| current.config.as_str());
                self.set_updated(TRUE, &format!("{current} is applied and verified"));
            }
            _ => {}
        }
    }

    /// Set the conditions of the pinned image sets, with MCD's reasons. A failure lasts until all images are pinned.
    fn record_pins(&mut self, pins: &PinState) {
        const AS_EXPECTED: &str = "AsExpected";
        // A cluster without sets gets no word about them, but for the end of an earlier condition.
        if pins.is_idle() && ![PINS_PROGRESSING, PINS_DEGRADED].iter().any(|kind| self.is(kind, TRUE)) {
            return;
        }
        let summary = pins.summary();
        if pins.is_pinned {
            self.set(PINS_PROGRESSING, FALSE, AS_EXPECTED, &summary);
            return self.set(PINS_DEGRADED, FALSE, AS_EXPECTED, &summary);
        }
        self.set(PINS_PROGRESSING, TRUE, "ImagePrefetch", &summary);
        if let Some(failure) = &pins.failure {
            self.set(PINS_DEGRADED, TRUE, "PrefetchFailed", failure);
        }
    }

    fn prepared(&mut self, target: &str) {
        self.set(
            PREPARED,
            TRUE,
            PREPARED,
            &format!("{target} passed its checks, and its content is on the node"),
        );
    }

    fn applied(&mut self, target: &str, parts: &[&str]) {
        for part in parts {
            self.set_part(part, TRUE, &format!("files and OS of {target} are on disk"));
        }
        self.set(EXECUTED, TRUE, EXECUTED, &format!("{target} is applied"));
    }

    /// Complete the conditions whose outcome was unknown until the reboot or the verification.
    fn finished(&mut self, lifecycle: &Lifecycle) {
        let current =
            lifecycle.current.as_ref().map_or_else(String::new, |current| current.config.to_string());
        if self.is(REBOOTED, UNKNOWN) {
            self.set(REBOOTED, TRUE, REBOOTED, &format!("the node was rebooted into {current}"));
        }
        let parts = [APPLIED, APPLIED_FILES].into_iter().filter(|part| self.is(part, UNKNOWN));
        let parts: Vec<&str> = parts.collect();
        if !parts.is_empty() {
            self.applied(&current, &parts);
            self.set(POST_ACTION, TRUE, "None", "the affected services picked up the change");
        }
    }
}

/// Reason why a node that was up to date is so no longer.
fn not_updated(lifecycle: &Lifecycle) -> String {
    let current = lifecycle.current.as_ref().map_or("no config", |current| current.config.as_str());
    match &lifecycle.phase {
        // Rolled back by an operator after the update was complete.
        DaemonPhase::Blocked { .. } => {
            format!("the node was rolled back to {current}; the desired config is blocked")
        }
        _ => format!("the node has {current}, and is degraded"),
    }
}

#[cfg(test)]
mod tests;
