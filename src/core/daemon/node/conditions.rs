//! The conditions of the node's `MachineConfigNode`: how far an update is, for people and for the cluster's pools.
//!
//! They are a history: each phase sets what it knows, and `Updated` begins a new one.

use serde::{Deserialize, Serialize};

use crate::core::daemon::lifecycle::{AfterDrain, DaemonPhase, Lifecycle};

use super::annotations::trouble;

/// The most characters of a message (the resource's own limit).
const MESSAGE_CHARACTERS: usize = 32_768;

/// A condition as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeCondition {
    /// Which one.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, in one word.
    pub reason: String,
    /// Why, for people.
    pub message: String,
    /// When the status changed: RFC 3339.
    pub last_transition_time: String,
}

/// The types that are there from the beginning.
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
    "PinnedImageSetsProgressing",
    "PinnedImageSetsDegraded",
];
const UPDATED: &str = "Updated";
const PREPARED: &str = "UpdatePrepared";
const EXECUTED: &str = "UpdateExecuted";
const CORDONED: &str = "Cordoned";
const DRAINED: &str = "Drained";
const APPLIED: &str = "AppliedFilesAndOS";
const POST_ACTION: &str = "UpdatePostActionComplete";
const REBOOTED: &str = "RebootedNode";
const COMPLETE: &str = "UpdateComplete";
const UNCORDONED: &str = "Uncordoned";
const RESUMED: &str = "Resumed";
const DEGRADED: &str = "NodeDegraded";
/// Those that are not about an update, and outlast it.
const LASTING: [&str; 3] = [DEGRADED, "PinnedImageSetsProgressing", "PinnedImageSetsDegraded"];

const TRUE: &str = "True";
const FALSE: &str = "False";
const UNKNOWN: &str = "Unknown";
/// The reason of what has not happened.
const NOT_YET: &str = "NotYetOccurred";

/// The conditions that say where the daemon stands, after those that are there; the same where those do.
#[must_use]
pub fn after(before: &[NodeCondition], lifecycle: &Lifecycle, now: &str) -> Vec<NodeCondition> {
    let mut history = History { conditions: before.to_vec(), now };
    for kind in TYPES {
        if history.find(kind).is_none() {
            history.add(kind, FALSE, NOT_YET, "this condition has not occurred yet");
        }
    }
    history.tell(lifecycle);
    history.conditions
}

struct History<'a> {
    conditions: Vec<NodeCondition>,
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

    /// What is so already keeps its time, and what is said so already is not said anew.
    fn set(&mut self, kind: &str, status: &str, reason: &str, message: &str) {
        let message: String = message.chars().take(MESSAGE_CHARACTERS).collect();
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

    /// A part of the update's execution: its reason names both (the reference's way).
    fn set_part(&mut self, kind: &str, status: &str, message: &str) {
        self.set(kind, status, &format!("{EXECUTED}{kind}"), message);
    }

    /// A new history: what happened before did not happen for this.
    fn set_updated(&mut self, status: &str, message: &str) {
        if self.find(UPDATED).is_some_and(|now| now.status == status && now.message == message) {
            return;
        }
        self.set(UPDATED, status, UPDATED, message);
        let now = self.now;
        for condition in &mut self.conditions {
            let is_past = condition.kind != UPDATED && !LASTING.contains(&condition.kind.as_str());
            if is_past && condition.status != FALSE {
                condition.message = format!("{message}; before it: {}", condition.message);
                FALSE.clone_into(&mut condition.status);
                now.clone_into(&mut condition.last_transition_time);
            }
        }
    }

    fn tell(&mut self, lifecycle: &Lifecycle) {
        match trouble(lifecycle) {
            Some((_, reason)) => self.set(DEGRADED, TRUE, DEGRADED, &reason),
            None if lifecycle.phase == DaemonPhase::Done && !self.is(DEGRADED, FALSE) => {
                self.set(DEGRADED, FALSE, DEGRADED, "the node is well");
            }
            None => {}
        }
        match &lifecycle.phase {
            DaemonPhase::Preparing { target } => {
                self.set_updated(FALSE, &format!("the node is updated to {}", target.config));
            }
            DaemonPhase::Draining { target, then, is_late: false } => {
                self.prepared(&target.config);
                let message = format!("the workload leaves for {}", target.config);
                self.set(EXECUTED, UNKNOWN, DRAINED, &message);
                if *then == AfterDrain::Apply {
                    self.set(POST_ACTION, UNKNOWN, POST_ACTION, "no reboot is needed");
                }
            }
            DaemonPhase::Applying { target } => {
                self.prepared(&target.config);
                if self.is(DRAINED, FALSE) {
                    self.set_part(DRAINED, FALSE, "the workload can stay");
                }
                let message = format!("{} is applied", target.config);
                self.set(EXECUTED, UNKNOWN, APPLIED, &message);
                self.set_part(APPLIED, UNKNOWN, &message);
            }
            // It is armed, and nothing can come in between any more.
            DaemonPhase::Rebooting { target, .. } => {
                self.applied(&target.config);
                self.set(REBOOTED, UNKNOWN, REBOOTED, &format!("the node reboots into {}", target.config));
            }
            DaemonPhase::CheckingBoot { .. } | DaemonPhase::Verifying => self.arrived(lifecycle),
            DaemonPhase::Uncordoning { is_late: false } => {
                self.set(RESUMED, TRUE, RESUMED, "what runs is verified");
            }
            DaemonPhase::Done => {
                let runs = lifecycle.runs.as_ref().map_or("", |runs| &runs.config);
                self.set_updated(TRUE, &format!("the node is {runs}"));
            }
            // Somebody went back from it.
            DaemonPhase::Blocked { .. } if self.is(UPDATED, TRUE) => {
                let runs = lifecycle.runs.as_ref().map_or("", |runs| &runs.config);
                self.set_updated(
                    FALSE,
                    &format!("the node is {runs} again, which is not what is wanted of it"),
                );
            }
            _ => {}
        }
    }

    fn prepared(&mut self, target: &str) {
        self.set(PREPARED, TRUE, PREPARED, &format!("{target} can be applied, and what it needs is here"));
    }

    fn applied(&mut self, target: &str) {
        self.set_part(APPLIED, TRUE, &format!("{target} is on the disk"));
        self.set(EXECUTED, TRUE, EXECUTED, &format!("{target} is applied"));
    }

    /// What was under way is over: whatever was not known of it is so.
    fn arrived(&mut self, lifecycle: &Lifecycle) {
        let runs = lifecycle.runs.as_ref().map_or_else(String::new, |runs| runs.config.clone());
        if self.is(REBOOTED, UNKNOWN) {
            self.set(REBOOTED, TRUE, REBOOTED, &format!("the node was rebooted into {runs}"));
        }
        if self.is(APPLIED, UNKNOWN) {
            self.applied(&runs);
            self.set(POST_ACTION, TRUE, "None", "the services that have to know of it do");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::daemon::lifecycle::ConfigRef;

    fn wish(config: &str) -> ConfigRef {
        ConfigRef { config: config.into(), image: None, digest: None }
    }

    /// The conditions that are not false, after these phases.
    fn through(phases: impl IntoIterator<Item = DaemonPhase>) -> Vec<String> {
        let mut conditions = Vec::new();
        for phase in phases {
            let lifecycle = Lifecycle { phase, runs: Some(wish("b")), ..Lifecycle::default() };
            conditions = after(&conditions, &lifecycle, "2030-01-01T00:00:00Z");
            let again = after(&conditions, &lifecycle, "2031-01-01T00:00:00Z");
            assert_eq!(again, conditions, "it is said once");
        }
        let set = conditions.iter().filter(|condition| condition.status != FALSE);
        set.map(|condition| format!("{}={} ({})", condition.kind, condition.status, condition.reason))
            .collect()
    }

    #[test]
    fn an_update_is_told_step_by_step() {
        let target = || wish("b");
        let draining =
            || DaemonPhase::Draining { target: target(), then: AfterDrain::Unlock, is_late: false };
        let rebooting = || DaemonPhase::Rebooting { target: target(), blocked_by: None };
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
    fn without_a_reboot_nothing_is_said_of_one() {
        let applying = DaemonPhase::Applying { target: wish("b") };
        let phases = [DaemonPhase::Preparing { target: wish("b") }, applying, DaemonPhase::Verifying];
        let expected = [
            "UpdatePrepared=True (UpdatePrepared)",
            "UpdateExecuted=True (UpdateExecuted)",
            "AppliedFilesAndOS=True (UpdateExecutedAppliedFilesAndOS)",
            "UpdatePostActionComplete=True (None)",
        ];
        assert_eq!(through(phases), expected);
    }
}
