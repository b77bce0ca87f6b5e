//! Text form of the status: the condition of the host, its state by subject, then the deployments.

use jiff::Timestamp;

use crate::cli::inspect::deployment_text;
use crate::cli::inspect::verify_text::skew_line;
use crate::cli::output::styled_text::{StyledText, TextRole};
use crate::cli::output::words::{counted, utc};
use crate::core::daemon::daemon_report::DaemonReport;
use crate::core::daemon::hook_verdicts::HookVerdict;
use crate::core::history::duration;
use crate::core::state::blocked::BlockedTarget;
use crate::core::state::boot_check::{CheckResult, HealthPhase, HealthReport, failed_checks};
use crate::core::values::causes::first_of;
use crate::core::values::foreign_text::harmless_line;
use crate::core::values::image::boot_image::BootImage;
use crate::core::values::kernel_arguments::argument_skew::ArgumentSkew;
use crate::report::status::{
    ConditionItem, ConditionOutcome, GrantItem, JournalState, OriginItem, PendingItem, PendingState,
    RebootPolicyItem, SpaceItem, StatusDocument, TransactionItem, UnreadableDocument, WindowItem,
};

/// Fields that a line names.
const NAMED_FIELDS: usize = 3;
const MEBIBYTE: u64 = 1 << 20;
/// Column in which values start, behind their labels.
const VALUES: usize = 16;

/// Render the status as text, with times as they are at `now`.
pub(crate) fn render(document: &StatusDocument, now: Timestamp) -> StyledText {
    let mut page = StatusPage { text: StyledText::default() };
    if let Some(condition) = &document.condition {
        page.condition(condition, document.published, now);
    }
    page.state(document);
    if let Some(generation) = &document.generation {
        deployment_text::push_generation(generation, "", &mut page.text);
    } else if document.deployments.is_empty() {
        page.text.push("no generation was applied yet\n");
    }
    for deployment in &document.deployments {
        page.text.push("\n");
        deployment_text::push_deployment(deployment, &mut page.text);
    }
    page.text
}

struct StatusPage {
    text: StyledText,
}

impl StatusPage {
    /// Add a label and its value, in one line.
    fn row(&mut self, label: &str, value: &str) {
        self.text.push(format!("{label:<VALUES$}{}\n", harmless_line(value)));
    }

    fn condition(&mut self, condition: &ConditionItem, published: Option<Timestamp>, now: Timestamp) {
        let role = match condition.outcome {
            ConditionOutcome::Settled => TextRole::Added,
            ConditionOutcome::UnderWay => TextRole::Changed,
            ConditionOutcome::Failed => TextRole::Alarm,
        };
        self.text.push(format!("{:<VALUES$}", "state:")).push_as(role, &condition.name);
        if let Some(since) = condition.since {
            let ago = u64::try_from(now.as_second() - since.as_second()).ok();
            let ago = ago.map(|seconds| format!(" ({} ago)", duration(seconds))).unwrap_or_default();
            self.text.push(format!(" since {}{ago}", utc(since)));
        }
        self.text.push("\n");
        if let Some(published) = published {
            self.row("  as of", &format!("{}; root sees the present status", utc(published)));
        }
        for (label, value) in [("  why", &condition.reason), ("  way out", &condition.remedy)] {
            if let Some(value) = value {
                self.row(label, value);
            }
        }
    }

    /// Add the state of the host apart from its deployments.
    fn state(&mut self, document: &StatusDocument) {
        if let Some(transaction) = &document.transaction {
            self.row("change:", &transaction_line(transaction));
        }
        if let Some(pending) = &document.pending {
            self.pending(pending, document.daemon_running || document.condition.is_none());
        }
        self.blocked(document);
        for UnreadableDocument { path, reason } in &document.unreadable {
            let kept = "cannot be read, and is kept for the release that wrote it";
            self.row("unreadable:", &format!("{kept}: {path}: {reason}"));
        }
        if let Some(report) = &document.daemon {
            self.daemon(report, document.daemon_running);
        }
        if let Some(report) = &document.boot_check {
            self.row("boot check:", &boot_check_line(report, document));
            self.text.push(outputs(&report.findings));
        }
        if let Some(policy) = &document.reboot_policy {
            self.reboot_policy(policy);
        }
        for HookVerdict { stage, name, failure, .. } in &document.hooks {
            if let Some(failure) = failure {
                self.row("hook failed:", &format!("{}.d/{name} {failure}", stage.as_str()));
            }
        }
        match document.drift {
            None => {}
            Some(0) => self.row("drift:", "none"),
            Some(paths) => {
                let paths = counted(usize::try_from(paths).unwrap_or(usize::MAX), "path");
                self.row("drift:", &format!("{paths}; `flameholder verify` lists them"));
            }
        }
        if let Some(item) = &document.kernel_arguments_after_reboot {
            let skew = ArgumentSkew { added: item.added.clone(), removed: item.removed.clone() };
            self.text.push(skew_line(&skew));
        }
        if !document.space.is_empty() {
            let free = document.space.iter().map(|SpaceItem { path, free, total }| {
                format!("{path} {} of {} MiB", free / MEBIBYTE, total / MEBIBYTE)
            });
            self.row("free space:", &free.collect::<Vec<_>>().join(", "));
        }
        if let Some(origin) = &document.origin {
            self.origin(origin);
        }
        let agent = &document.agent;
        self.row("agent:", &format!("{} ({})", agent.version, agent.path));
    }

    /// Add the blocked target, unless the condition names it, with what its checks printed, unless the boot check's report has it.
    fn blocked(&mut self, document: &StatusDocument) {
        let Some(blocked) = &document.blocked else { return };
        if document.condition.as_ref().is_none_or(|condition| condition.name != "Blocked") {
            let BlockedTarget { config, reason, .. } = blocked;
            self.row("blocked:", &format!("{config} is blocked: {reason}; `flameholder retry` releases it"));
        }
        let failed = document.boot_check.as_ref().filter(|report| report.phase == HealthPhase::Unhealthy);
        if failed.is_none_or(|report| report.generation != blocked.generation) {
            self.text.push(outputs(&blocked.failed_checks));
        }
    }

    fn daemon(&mut self, report: &DaemonReport, is_running: bool) {
        let config = match (&report.desired, &report.current) {
            (Some(desired), Some(current)) if desired != current => {
                format!("{current}, {desired} is desired")
            }
            (Some(name), Some(_)) => format!("{name}, as desired"),
            (Some(desired), None) => format!("none, {desired} is desired"),
            (None, Some(current)) => format!("{current}, and none is desired"),
            (None, None) => "none".to_owned(),
        };
        self.row("config:", &config);
        let state = if is_running {
            format!("running (pid {})", report.pid)
        } else {
            format!(
                "not running, it was in the phase {}; see `systemctl status flameholder-daemon`",
                report.summary()
            )
        };
        self.row("daemon:", &state);
        if let Some(class) = &report.class {
            let attempts = counted(usize::try_from(report.failures).unwrap_or(usize::MAX), "attempt");
            self.row("failed:", &format!("{attempts} in a row, for a reason of the class `{class}`"));
        }
        let source = report.source.as_deref().unwrap_or("unknown");
        let error = report.source_error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
        let digest = report.source_digest.as_ref().map(|digest| format!(" ({digest})")).unwrap_or_default();
        self.row("source:", &format!("{source}{digest}{error}"));
        if let Some(error) = &report.trust_error {
            self.row("trust:", &format!("trust material of the cluster is not applied: {error}"));
        }
        if let Some(pins) = &report.pinned_images {
            let failure = pins.failure.as_ref().map(|failure| format!(": {failure}")).unwrap_or_default();
            self.row("pinned images:", &format!("{}{failure}", pins.summary()));
        }
    }

    fn reboot_policy(&mut self, policy: &RebootPolicyItem) {
        if let Some(WindowItem { opens, closes }) = &policy.window {
            self.row("reboot window:", &format!("{} to {}", utc(*opens), utc(*closes)));
        }
        if let Some(lock) = &policy.lock {
            self.row("reboot lock:", lock);
        }
        if let Some(GrantItem { config, since, holds_slot }) = &policy.grant {
            let slot = match (*holds_slot, &policy.lock) {
                (true, _) => "holds a slot for ",
                (false, Some(_)) => "requested a slot for ",
                (false, None) => "",
            };
            self.row("reboot grant:", &format!("{slot}{config} since {}", utc(*since)));
        }
        for warning in &policy.warnings {
            self.row("warning:", warning);
        }
    }

    /// Add the pending generation, unless the condition of the host is that of the generation.
    fn pending(&mut self, item: &PendingItem, is_apart: bool) {
        let PendingItem { generation, config, failure, .. } = item;
        if is_apart {
            let id = generation.shown();
            self.row("pending:", &format!("generation {id} of {config} {}", pending_state(item)));
        }
        if let Some(failure) = failure {
            self.row("failed before:", &format!("the last attempt to boot it failed: {}", failure.reason));
        }
    }

    fn origin(&mut self, origin: &OriginItem) {
        if let Some(BootImage { version, image, digest }) = &origin.boot_image {
            let parts = [version, image, digest].into_iter().flatten().map(String::as_str);
            self.row("installed:", &format!("from {}", parts.collect::<Vec<_>>().join(", ")));
        }
        let changes = origin.irreconcilable_changes.iter();
        let fields: Vec<String> = changes.map(|change| harmless_line(&change.field).into_owned()).collect();
        if !fields.is_empty() {
            let fields = first_of(&fields, NAMED_FIELDS);
            self.row(
                "not applied:",
                &format!("{fields}, changed since the installation; only a new installation applies it"),
            );
        }
        for UnreadableDocument { path, reason } in &origin.unreadable {
            self.row("unreadable:", &format!("{path}: {reason}"));
        }
    }
}

fn boot_check_line(report: &HealthReport, document: &StatusDocument) -> String {
    let failed = failed_checks(&report.findings);
    let failed = failed.map(|failed| format!(": {failed}")).unwrap_or_default();
    match report.phase {
        HealthPhase::Checking => format!("running, {}{failed}", progress(report, document)),
        HealthPhase::Healthy => "passed".to_owned(),
        HealthPhase::Unhealthy => format!("failed{failed}"),
    }
}

/// Quote what failed check programs printed, where the operator asked for it.
fn outputs(findings: &[CheckResult]) -> String {
    let said = findings.iter().filter(|finding| !finding.output.is_empty());
    said.map(|CheckResult { check, output, .. }| {
        let lines: String = output.lines().map(|line| format!("    {line}\n")).collect();
        format!("  end of the output of {check}:\n{lines}")
    })
    .collect()
}

fn pending_state(item: &PendingItem) -> String {
    match item.state {
        PendingState::Locked => "is staged and locked: it does not boot before it is unlocked".to_owned(),
        PendingState::Unlocked => "boots with the next reboot".to_owned(),
        PendingState::Lost => {
            "was staged in an earlier boot and not finalized; `flameholder recover` stages it again"
                .to_owned()
        }
        PendingState::Discarded => {
            "is not staged any more: another program discarded it; `flameholder recover` removes its record"
                .to_owned()
        }
        PendingState::Finalized => {
            "is finalized; a full reboot boots it, unless another boot entry is chosen".to_owned()
        }
        PendingState::WithoutConfig => {
            "booted without its configuration; see `systemctl status flameholder-activate`".to_owned()
        }
        PendingState::Unconfirmed => "is booted, and its boot check has not passed yet".to_owned(),
        PendingState::Rejected => format!(
            "is rejected: {}; the deployment before it replaces it with a reboot",
            item.reason.as_deref().unwrap_or("no reason is recorded")
        ),
    }
}

/// Progress of the boot check: checks that pass, and the time left.
fn progress(report: &HealthReport, document: &StatusDocument) -> String {
    let passed = report.findings.iter().filter(|finding| finding.ok).count();
    let checks = format!("{passed} of {} checks pass", report.findings.len());
    match document.boot_check_seconds_left {
        Some(seconds) => format!("{checks}, {} min {} s left", seconds / 60, seconds % 60),
        None => format!("{checks}, and its time is over"),
    }
}

fn transaction_line(item: &TransactionItem) -> String {
    let to = item.target.as_ref().map(|target| format!("to generation {} ", target.shown()));
    let state = match (item.in_progress, item.state) {
        (true, _) => "is under way",
        (false, JournalState::Committed) => "is complete; `flameholder recover` removes its temporary files",
        (false, _) => "was interrupted; `flameholder recover` undoes it",
    };
    format!("a change {}{state}", to.unwrap_or_default())
}
