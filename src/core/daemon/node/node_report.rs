//! Report of the daemon on its Node: one annotation, which `flameholder fleet` reads from all Nodes.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::core::daemon::grant::GrantWait;
use crate::core::daemon::lifecycle::{ConfigRef, DaemonPhase, Lifecycle};
use crate::core::daemon::node::annotations::{AnnotationChanges, NodeAnnotations, RETRY};
use crate::core::values::foreign_text::harmless_line;
use crate::core::values::identifiers::ConfigName;

/// Annotation of the Node with the report, in JSON.
pub const REPORT: &str = "flameholder/report";

/// Version of the report. Members may be added within a version.
const SCHEMA: u32 = 1;
/// Maximum length of a reason, in characters: all Nodes together are on one screen, and in one list request.
const REASON_CHARACTERS: usize = 500;

/// State of the daemon as its Node shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReport {
    pub schema: u32,
    /// Name of the daemon's phase.
    pub phase: String,
    /// Time at which the phase began, by the clock of the host.
    pub since: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired: Option<ConfigName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<ConfigName>,
    /// Reason for the error or the wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Subject of the wait for a grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<GrantWait>,
    /// Number of failed attempts in a row.
    #[serde(default)]
    pub failures: u32,
    /// Config that is blocked after a rollback, and the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<BlockedReport>,
    /// Version of the agent.
    pub agent: String,
}

/// Config that is blocked on a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedReport {
    pub config: ConfigName,
    /// Reason for the rollback.
    pub reason: String,
}

impl NodeReport {
    /// Report `lifecycle` at `now`, after the report `before`.
    #[must_use]
    pub fn of(lifecycle: &Lifecycle, before: Option<&Self>, now: Timestamp) -> Self {
        let name = |desired: Option<&ConfigRef>| desired.map(|desired| desired.config.clone());
        let (phase, current) = (lifecycle.phase.name(), name(lifecycle.current.as_ref()));
        // The phases of a live update may not be reported: it is done with another config then.
        let same = before.filter(|before| before.phase == phase && before.current == current);
        let blocked = lifecycle.blocked.as_ref().map(|blocked| BlockedReport {
            config: blocked.desired.config.clone(),
            reason: shortened(&blocked.reason),
        });
        Self {
            schema: SCHEMA,
            phase: phase.to_owned(),
            since: same.map_or(now, |before| before.since),
            desired: name(lifecycle.desired.as_ref()),
            current,
            reason: lifecycle.reason().map(|reason| shortened(&reason)),
            waits_for: lifecycle.phase.grant_wait().cloned(),
            failures: lifecycle.failures,
            blocked,
            agent: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// Return the value of the annotation.
    #[must_use]
    pub fn render(&self) -> String {
        serde_json::to_string(self).expect("a report has only string keys")
    }

    /// Read the value of an annotation; `None` if it is no report that this release knows.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok().filter(|report: &Self| report.schema == SCHEMA)
    }
}

/// Return the changes of the Node's annotations that report `lifecycle` at `now`, and end a request to retry once nothing is
/// blocked. A phase for which a person may wait is reported at once, others with a request that is sent anyway.
#[must_use]
pub fn report_changes(
    lifecycle: &Lifecycle,
    node: &NodeAnnotations,
    is_sent_anyway: bool,
    now: Timestamp,
) -> AnnotationChanges {
    let mut changes = AnnotationChanges::new();
    // Before the host was observed, its blocks are not known.
    let is_unblocked = lifecycle.blocked.is_none() && lifecycle.phase != DaemonPhase::Observing;
    if node.contains_key(RETRY) && is_unblocked {
        changes.insert(RETRY.to_owned(), None);
    }
    let before = node.get(REPORT).and_then(|report| NodeReport::parse(report));
    let report = NodeReport::of(lifecycle, before.as_ref(), now);
    let is_due = is_sent_anyway || is_worth_a_request(&lifecycle.phase) || !changes.is_empty();
    if is_due && before.as_ref() != Some(&report) {
        changes.insert(REPORT.to_owned(), Some(report.render()));
    }
    changes
}

/// Return true if a person may wait for the phase.
fn is_worth_a_request(phase: &DaemonPhase) -> bool {
    matches!(
        phase,
        DaemonPhase::AwaitingGrant { .. }
            | DaemonPhase::Draining { .. }
            // The last word of a host that is away for a while.
            | DaemonPhase::ShuttingDown { .. }
            | DaemonPhase::RollingBack { .. }
            | DaemonPhase::Drifted { .. }
            | DaemonPhase::Blocked { .. }
            | DaemonPhase::BackingOff { .. }
            | DaemonPhase::Done
    )
}

fn shortened(reason: &str) -> String {
    harmless_line(reason).chars().take(REASON_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::daemon::lifecycle::BlockedConfig;

    #[test]
    fn report_keeps_the_time_at_which_its_phase_began() {
        let time = |second| Timestamp::from_second(second).unwrap();
        let idle = Lifecycle { phase: DaemonPhase::Idle, ..Lifecycle::default() };
        let first = NodeReport::of(&idle, None, time(10));
        assert_eq!(NodeReport::of(&idle, Some(&first), time(20)).since, time(10));
        let done = Lifecycle { phase: DaemonPhase::Done, ..Lifecycle::default() };
        assert_eq!(NodeReport::of(&done, Some(&first), time(20)).since, time(20));
        let on = |config: &str| {
            let current = ConfigRef { config: config.into(), image: None, digest: None };
            Lifecycle { current: Some(current), ..done.clone() }
        };
        let before = NodeReport::of(&on("a"), None, time(10));
        assert_eq!(NodeReport::of(&on("a"), Some(&before), time(20)).since, time(10));
        assert_eq!(NodeReport::of(&on("b"), Some(&before), time(20)).since, time(20), "a live update");
        assert_eq!(NodeReport::parse(&first.render()), Some(first.clone()));
        let newer = NodeReport { schema: 2, ..first };
        assert_eq!(NodeReport::parse(&newer.render()), None);
        assert_eq!(NodeReport::parse("{"), None);
    }

    #[test]
    fn request_to_retry_stays_until_nothing_is_blocked() {
        let node = NodeAnnotations::from([(RETRY.to_owned(), "1".to_owned())]);
        let ended = |phase: DaemonPhase, blocked: Option<BlockedConfig>| {
            let lifecycle = Lifecycle { phase, blocked, ..Lifecycle::default() };
            report_changes(&lifecycle, &node, false, Timestamp::UNIX_EPOCH).get(RETRY) == Some(&None)
        };
        let desired = ConfigRef { config: "b".into(), image: None, digest: None };
        let blocked = BlockedConfig { desired, reason: "it was not healthy".into() };
        let reason = blocked.reason.clone();
        assert!(!ended(DaemonPhase::Blocked { reason }, Some(blocked.clone())));
        assert!(!ended(DaemonPhase::Observing, Some(blocked)));
        assert!(!ended(DaemonPhase::Observing, None), "the host was not observed yet");
        assert!(ended(DaemonPhase::Idle, None));
    }

    #[test]
    fn host_that_shuts_down_reports_it_at_once() {
        let target = ConfigRef { config: "b".into(), image: None, digest: None };
        let reported = |phase| {
            let lifecycle = Lifecycle { phase, ..Lifecycle::default() };
            report_changes(&lifecycle, &NodeAnnotations::new(), false, Timestamp::UNIX_EPOCH)
                .contains_key(REPORT)
        };
        assert!(reported(DaemonPhase::ShuttingDown { target: target.clone() }));
        assert!(!reported(DaemonPhase::Fetching { target }));
    }

    #[test]
    fn reason_of_a_report_is_short_and_harmless() {
        let reason = format!("a\u{1b}[2J\n{}", "x".repeat(2000));
        let lifecycle = Lifecycle { phase: DaemonPhase::Drifted { reason }, ..Lifecycle::default() };
        let report = NodeReport::of(&lifecycle, None, Timestamp::UNIX_EPOCH).reason.unwrap();
        assert!(
            report.chars().count() == REASON_CHARACTERS && !report.contains(['\u{1b}', '\n']),
            "{report}"
        );
    }
}
