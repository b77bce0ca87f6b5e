//! Text form of the status.

use std::path::Path;

use crate::cli::inspect::verify::skew_line;
use crate::cli::output::styled_text::{StyledText, TextRole};
use crate::core::daemon::daemon_report::DaemonReport;
use crate::core::state::blocked::BlockedTarget;
use crate::core::state::boot_check::{CheckResult, HealthPhase, HealthReport, failed_checks};
use crate::core::values::causes::first_of;
use crate::core::values::foreign_text::harmless_line;
use crate::core::values::image::boot_image::BootImage;
use crate::core::values::kernel_arguments::argument_skew::ArgumentSkew;
use crate::report::status::{
    DeploymentItem, GenerationItem, JournalState, OriginItem, PendingItem, PendingState, SpaceItem,
    StatusDocument, TransactionItem, UnreadableDocument,
};

/// Hex digits of a commit in text output.
const SHORT_COMMIT: usize = 12;
/// Fields that a line names.
const NAMED_FIELDS: usize = 3;
const MEBIBYTE: u64 = 1 << 20;

/// Render the status as text.
pub(crate) fn render(document: &StatusDocument) -> StyledText {
    let mut page = StyledText::default();
    if let Some(generation) = &document.generation {
        page.push(generation_lines(generation, ""));
    }
    for deployment in &document.deployments {
        deployment_lines(deployment, &mut page);
    }
    if page.is_empty() {
        page.push("no generation was applied yet\n");
    }
    page.push(state_lines(document));
    page
}

/// State of the host apart from its deployments.
fn state_lines(document: &StatusDocument) -> String {
    let mut text = String::new();
    text.extend(document.transaction.as_ref().map(transaction_line));
    text.extend(document.pending.as_ref().map(|pending| pending_line(pending, document)));
    if let Some(blocked) = &document.blocked {
        let BlockedTarget { config, reason, .. } = blocked;
        text.push_str(&format!(
            "{config} is blocked: {}; `flameholder retry` releases it\n",
            harmless_line(reason)
        ));
    }
    for UnreadableDocument { path, reason } in &document.unreadable {
        text.push_str(&format!(
            "cannot be read, and is kept for the release that wrote it: {path}: {reason}\n"
        ));
    }
    text.extend(
        document.kernel_arguments_after_reboot.as_ref().map(|item| {
            skew_line(&ArgumentSkew { added: item.added.clone(), removed: item.removed.clone() })
        }),
    );
    text.extend(document.boot_check.as_ref().map(boot_check_line));
    text.extend(document.daemon.as_ref().map(daemon_line));
    if !document.space.is_empty() {
        let free = document.space.iter().map(|SpaceItem { path, free, total }| {
            format!("{path} {} of {} MiB", free / MEBIBYTE, total / MEBIBYTE)
        });
        text.push_str(&format!("free space: {}\n", free.collect::<Vec<_>>().join(", ")));
    }
    text.extend(document.origin.as_ref().map(origin_lines));
    text.push_str(&format!("agent: {} ({})\n", document.agent.version, document.agent.path));
    text
}

fn origin_lines(origin: &OriginItem) -> String {
    let boot_image = origin.boot_image.as_ref().map(|BootImage { version, image, digest }| {
        let parts = [version, image, digest].into_iter().flatten().map(String::as_str);
        format!("installed from: {}\n", harmless_line(&parts.collect::<Vec<_>>().join(", ")))
    });
    let fields: Vec<String> = origin
        .irreconcilable_changes
        .iter()
        .map(|change| harmless_line(&change.field).into_owned())
        .collect();
    let changes = (!fields.is_empty()).then(|| {
        format!(
            "changed since the installation, and not applied: {}; only a new installation applies it\n",
            first_of(&fields, NAMED_FIELDS)
        )
    });
    let unreadable = origin.unreadable.iter();
    let unreadable = unreadable.map(|UnreadableDocument { path, reason }| {
        format!("cannot be read: {path}: {}\n", harmless_line(reason))
    });
    boot_image.into_iter().chain(changes).chain(unreadable).collect()
}

fn daemon_line(report: &DaemonReport) -> String {
    let is_gone = !Path::new(&format!("/proc/{}", report.pid)).exists();
    let gone = if is_gone { " (not running; see `systemctl status flameholder-daemon`)" } else { "" };
    let problems = [
        ("source of the desired config", &report.source_error),
        ("trust material of the cluster is not applied", &report.trust_error),
    ];
    let problems = problems.into_iter().filter_map(|(about, problem)| Some((about, problem.as_ref()?)));
    let lines: String = problems.map(|(about, problem)| format!("{about}: {problem}\n")).collect();
    let pins = report.pinned_images.as_ref().map(|pins| {
        let failure = pins.failure.as_ref().map(|failure| format!(": {}", harmless_line(failure)));
        format!("pinned images: {}{}\n", pins.summary(), failure.unwrap_or_default())
    });
    format!("the daemon{gone}: {}\n{lines}{}", report.summary(), pins.unwrap_or_default())
}

fn boot_check_line(report: &HealthReport) -> String {
    let failed = failed_checks(&report.findings);
    let failed = failed.map(|failed| format!(": {failed}")).unwrap_or_default();
    let line = match report.phase {
        HealthPhase::Checking => format!("boot check: running{failed}\n"),
        HealthPhase::Healthy => "boot check: passed\n".to_owned(),
        HealthPhase::Unhealthy => format!("boot check: failed{failed}\n"),
    };
    line + &outputs(report)
}

/// Quote what failed check programs printed, where the operator asked for it.
fn outputs(report: &HealthReport) -> String {
    let said = report.findings.iter().filter(|finding| !finding.output.is_empty());
    said.map(|CheckResult { check, output, .. }| {
        let lines: String = output.lines().map(|line| format!("    {line}\n")).collect();
        format!("  end of the output of {check}:\n{lines}")
    })
    .collect()
}

fn pending_line(item: &PendingItem, document: &StatusDocument) -> String {
    let PendingItem { generation, config, failure, reason, .. } = item;
    let state = match item.state {
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
        PendingState::Unconfirmed => format!("is booted and unconfirmed; {}", progress(document)),
        PendingState::Rejected => format!(
            "is rejected: {}; the deployment before it replaces it with a reboot",
            reason.as_deref().unwrap_or("no reason is recorded")
        ),
    };
    let failed =
        failure.as_ref().map(|failure| format!("  the last attempt to boot it failed: {}\n", failure.reason));
    format!("generation {generation} of {config} {state}\n{}", failed.unwrap_or_default())
}

/// Progress of the boot check: checks that pass, and the time left.
fn progress(document: &StatusDocument) -> String {
    let Some(report) = document.boot_check.as_ref() else {
        return "its boot check has not begun".to_owned();
    };
    let passed = report.findings.iter().filter(|finding| finding.ok).count();
    let checks = format!("{passed} of {} checks pass", report.findings.len());
    match document.boot_check_seconds_left {
        Some(seconds) => format!("{checks}, {} min {} s left", seconds / 60, seconds % 60),
        None => format!("{checks}, and its time is over"),
    }
}

fn transaction_line(item: &TransactionItem) -> String {
    let to = item.target.as_ref().map(|target| format!(" to generation {target}")).unwrap_or_default();
    let state = match (item.in_progress, item.state) {
        (true, _) => "is under way",
        (false, JournalState::Committed) => "is complete; `flameholder recover` removes its temporary files",
        (false, _) => "was interrupted; `flameholder recover` undoes it",
    };
    format!("a change{to} {state}\n")
}

/// Shorten a commit checksum for text output.
pub(crate) fn short_commit(commit: &str) -> String {
    commit.chars().take(SHORT_COMMIT).collect()
}

fn deployment_lines(item: &DeploymentItem, page: &mut StyledText) {
    let commit = short_commit(&item.commit);
    let marks = [
        (item.next, "boots next"),
        (item.booted, "booted"),
        (item.staged, "staged"),
        (item.locked, "locked"),
        (item.pinned, "pinned"),
    ];
    let marks: Vec<&str> = marks.iter().filter(|(set, _)| *set).map(|(_, mark)| *mark).collect();
    let version = harmless_line(item.version.as_deref().unwrap_or("no version"));
    page.push_as(TextRole::Heading, format!("{} {commit}.{}  {version}", item.stateroot, item.serial));
    if !marks.is_empty() {
        page.push(format!("  ({})", marks.join(", ")));
    }
    page.push("\n");
    if let Some(image) = &item.image {
        page.push(format!("  image       {image}\n"));
    }
    if let Some(digest) = &item.manifest_digest {
        page.push(format!("  digest      {digest}\n"));
    }
    page.push(format!("  kernel      {}\n", item.kernel_arguments));
    page.push(match &item.generation {
        Some(generation) => generation_lines(generation, "  "),
        None => "  generation  none (not made by flameholder)\n".to_owned(),
    });
}

fn generation_lines(item: &GenerationItem, indent: &str) -> String {
    let note = match (item.at_finalization, item.record_matches) {
        (true, _) => "  (its /etc is written at shutdown)",
        (false, true) => "",
        (false, false) => "  (foreign deployment: the record in its /etc names another one)",
    };
    let mut text =
        format!("{indent}generation  {}{note}\n{indent}config      {}\n", item.generation, item.config);
    if let Some(signature) = &item.signature {
        text.push_str(&format!("{indent}signature   {}\n", harmless_line(&signature.to_string())));
    }
    for (label, items) in [("unsupported", &item.unsupported), ("deferred", &item.deferred)] {
        if !items.is_empty() {
            text.push_str(&format!("{indent}{label:<11} {}, listed by `-o json`\n", items.len()));
        }
    }
    text
}
