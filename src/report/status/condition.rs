//! Condition of the running host in one word, with the reason and the way out. `status` begins with it, and
//! `status --exit-code` reports it.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{JournalState, PendingState, StatusDocument};
use crate::core::daemon::daemon_report::DaemonReport;
use crate::core::daemon::lifecycle::ProblemClass;
use crate::core::daemon::message_ids;
use crate::core::history::HistoryEvent;
use crate::core::history::history_log::HistoryLog;
use crate::core::state::boot_check::{HealthPhase, failed_checks};

/// Condition of the running host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConditionItem {
    /// Phase of the daemon while that runs (flameholder-phases(7)). Else `Idle`, `Applying`, `Interrupted`, `Staged`,
    /// `CheckingBoot`, `RollingBack`, `Blocked`, `Degraded` or `Done`, as the state on the disk has it.
    pub name: String,
    /// Place between two rests.
    pub outcome: ConditionOutcome,
    /// Time at which the condition began, by the clock of the host; null where that is not known.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub since: Option<Timestamp>,
    /// Cause, in one line; null where there is none to name.
    pub reason: Option<String>,
    /// Command or change that ends the condition; null where it ends by itself.
    pub remedy: Option<String>,
}

/// Place of a condition between two rests, as `status --exit-code` reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ConditionOutcome {
    /// The host is as it shall be: exit code 0.
    Settled,
    /// Ends by itself: exit code 75.
    UnderWay,
    /// Does not end, or only by a rollback: exit code 1.
    Failed,
}

const RECOVER: &str = "flameholder recover";

/// Conditions that are no phase of the daemon.
const OTHERS: [&str; 3] = ["Interrupted", "Staged", "Degraded"];

impl ConditionItem {
    /// Return the names of all conditions.
    pub fn names() -> impl Iterator<Item = &'static str> {
        message_ids::phases().chain(OTHERS)
    }

    /// Derive the condition from the status and the history.
    #[must_use]
    pub fn of(document: &StatusDocument, log: &HistoryLog) -> Self {
        let condition = of_interruption(document)
            .or_else(|| document.daemon.as_ref().filter(|_| document.daemon_running).map(of_phase))
            .or_else(|| of_pending(document))
            .or_else(|| of_block(document))
            .unwrap_or_else(|| at_rest(document));
        let since = condition.since.or_else(|| began(&condition.name, log));
        Self { since, ..condition }
    }

    fn new(name: &str, outcome: ConditionOutcome) -> Self {
        Self { name: name.to_owned(), outcome, since: None, reason: None, remedy: None }
    }

    fn because(self, reason: impl Into<String>) -> Self {
        Self { reason: Some(reason.into()), ..self }
    }

    fn ended_by(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }
}

/// Return the condition of a change that no process completes.
fn of_interruption(document: &StatusDocument) -> Option<ConditionItem> {
    let open = document.transaction.as_ref()?;
    if open.in_progress {
        // The daemon knows the phase of its own change.
        return (!document.daemon_running).then(|| {
            ConditionItem::new("Applying", ConditionOutcome::UnderWay).because("a change is under way")
        });
    }
    let reason = match open.state {
        JournalState::Committed => "a change is complete, and has left temporary files",
        JournalState::Prepared | JournalState::Acting => "a change was interrupted",
    };
    Some(ConditionItem::new("Interrupted", ConditionOutcome::Failed).because(reason).ended_by(RECOVER))
}

fn of_phase(report: &DaemonReport) -> ConditionItem {
    let class = report.class.as_deref().and_then(ProblemClass::named);
    let outcome = match (report.phase.as_str(), class) {
        ("Idle" | "Done", _) => ConditionOutcome::Settled,
        ("Blocked" | "Drifted" | "RollingBack", _) => ConditionOutcome::Failed,
        // The same rule as for the cluster.
        ("BackingOff", Some(class)) if class.is_reported_after(report.failures) => ConditionOutcome::Failed,
        _ => ConditionOutcome::UnderWay,
    };
    let remedy = match (report.phase.as_str(), class) {
        ("Blocked", _) => Some("desire another config, or `flameholder retry`"),
        ("Drifted", _) | ("BackingOff", Some(ProblemClass::Drift)) => Some(
            "`flameholder verify` lists the paths; \
             `flameholder apply --desired /etc/machine-config-daemon/currentconfig` undoes the local changes",
        ),
        ("BackingOff", Some(ProblemClass::Configuration)) => Some("correct the desired config"),
        _ => None,
    };
    ConditionItem {
        since: report.since,
        reason: report.reason.clone(),
        remedy: remedy.map(str::to_owned),
        ..ConditionItem::new(&report.phase, outcome)
    }
}

fn of_pending(document: &StatusDocument) -> Option<ConditionItem> {
    let pending = document.pending.as_ref()?;
    let staged = ConditionItem::new("Staged", ConditionOutcome::UnderWay);
    Some(match pending.state {
        PendingState::Locked => staged
            .because(format!("{} is locked, and does not boot", pending.config))
            .ended_by("the same `flameholder apply` without --locked, or `flameholder unstage`"),
        PendingState::Unlocked => staged
            .because(format!("{} boots with the next reboot", pending.config))
            .ended_by("`systemctl reboot`, or `flameholder unstage`"),
        PendingState::Finalized => staged
            .because(format!("{} boots with the next full reboot", pending.config))
            .ended_by("systemctl reboot"),
        PendingState::Lost | PendingState::Discarded => {
            ConditionItem::new("Interrupted", ConditionOutcome::Failed)
                .because(format!("{} is not staged any more", pending.config))
                .ended_by(RECOVER)
        }
        PendingState::WithoutConfig => ConditionItem::new("Degraded", ConditionOutcome::Failed)
            .because(format!("{} booted without its configuration", pending.config))
            .ended_by("systemctl status flameholder-activate"),
        PendingState::Unconfirmed => {
            let reason = match &document.boot_check {
                Some(report) => failed_checks(&report.findings),
                None => Some("its boot check has not begun".to_owned()),
            };
            ConditionItem { reason, ..ConditionItem::new("CheckingBoot", ConditionOutcome::UnderWay) }
        }
        PendingState::Rejected => ConditionItem {
            reason: pending.reason.clone(),
            ..ConditionItem::new("RollingBack", ConditionOutcome::Failed).ended_by("systemctl reboot")
        },
    })
}

fn of_block(document: &StatusDocument) -> Option<ConditionItem> {
    let blocked = document.blocked.as_ref()?;
    Some(
        ConditionItem::new("Blocked", ConditionOutcome::Failed)
            .because(format!("{}: {}", blocked.config, blocked.reason))
            .ended_by("apply another config, or `flameholder retry`"),
    )
}

fn at_rest(document: &StatusDocument) -> ConditionItem {
    if let Some(report) = document.boot_check.as_ref().filter(|report| report.phase == HealthPhase::Unhealthy)
    {
        return ConditionItem {
            reason: failed_checks(&report.findings),
            ..ConditionItem::new("Degraded", ConditionOutcome::Failed).ended_by("flameholder rollback")
        };
    }
    let has_generation = document.deployments.iter().any(|item| item.booted && item.generation.is_some());
    ConditionItem::new(if has_generation { "Done" } else { "Idle" }, ConditionOutcome::Settled)
}

/// Return the time at which a condition began that no daemon reports.
fn began(name: &str, log: &HistoryLog) -> Option<Timestamp> {
    let begins = |event: &HistoryEvent| match name {
        "Staged" => matches!(event, HistoryEvent::Staged | HistoryEvent::Unlocked | HistoryEvent::Finalized),
        "CheckingBoot" => matches!(event, HistoryEvent::Booted),
        "RollingBack" => matches!(event, HistoryEvent::RolledBack),
        "Blocked" => matches!(event, HistoryEvent::Blocked),
        "Done" => matches!(
            event,
            HistoryEvent::Applied | HistoryEvent::Confirmed | HistoryEvent::Adopted | HistoryEvent::Unblocked
        ),
        _ => false,
    };
    log.entries.iter().rfind(|entry| begins(&entry.event)).map(|entry| entry.time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::daemon::daemon_report::SourceState;
    use crate::core::daemon::lifecycle::{DaemonPhase, DaemonProblem, Lifecycle};

    #[test]
    fn failure_that_is_reported_as_degraded_does_not_end_by_itself() {
        let condition = |class, failures| {
            let problem = DaemonProblem { class, reason: "x".into() };
            let phase = DaemonPhase::BackingOff { problem };
            let lifecycle = Lifecycle { phase, failures, ..Lifecycle::default() };
            of_phase(&DaemonReport::of(&lifecycle, &SourceState::default(), 1, Timestamp::UNIX_EPOCH))
        };
        let drift = condition(ProblemClass::Drift, 1);
        assert_eq!(drift.outcome, ConditionOutcome::Failed);
        assert!(drift.remedy.is_some_and(|remedy| remedy.contains("flameholder verify")));
        assert_eq!(condition(ProblemClass::Host, 1).outcome, ConditionOutcome::Failed);
        assert_eq!(condition(ProblemClass::Transient, 1).outcome, ConditionOutcome::UnderWay);
        assert_eq!(condition(ProblemClass::Transient, 9).outcome, ConditionOutcome::Failed);
    }
}
