//! Text form of a comparison with the record: the verdict, then a table of what differs.

use crate::cli::TargetArgs;
use crate::cli::output::styled_text::{StyledText, TextRole};
use crate::cli::output::words::counted;
use crate::core::config::settings::DriftPolicy;
use crate::core::plan::drift::{Drift, DriftFinding};
use crate::core::values::foreign_text::harmless_line;
use crate::core::values::kernel_arguments::argument_skew::ArgumentSkew;
use crate::core::values::tree::DriftKind;
use crate::transaction::plan::drift::DriftReport;

/// Noun of the counts.
const DRIFTED: &str = "drifted path";
/// Longest value that others are aligned with.
const LONGEST_ALIGNED: usize = 60;

/// Render the comparison of the target `place`.
pub(crate) fn render(verified: &DriftReport, place: &TargetArgs) -> StyledText {
    let mut page = StyledText::default();
    if !verified.repaired.is_empty() {
        page.push(format!("repaired: {}\n", counted(verified.repaired.len(), DRIFTED)));
        page.push(table(verified.repaired.iter().map(|drift| (drift, None, None))));
    }
    let (counting, accepted): (Vec<&DriftFinding>, Vec<&DriftFinding>) =
        verified.findings.iter().partition(|found| found.counts());
    verdict(verified, counting.len(), accepted.len(), &mut page);
    page.push(table(counting.iter().map(|found| (&found.drift, Some(found.policy), found.documents.last()))));
    for found in &counting {
        if let Some(obstacle) = &found.obstacle {
            let path = found.drift.path.as_str();
            let about = if obstacle.contains(path) { String::new() } else { format!("{path}: ") };
            page.push(format!("  not repaired: {about}{}\n", harmless_line(obstacle)));
        }
    }
    for (policy, heading) in [
        (DriftPolicy::Merge, "local changes, which the next update keeps"),
        (DriftPolicy::Ignore, "ignored by policy"),
    ] {
        let accepted: Vec<&&DriftFinding> = accepted.iter().filter(|found| found.policy == policy).collect();
        if !accepted.is_empty() {
            page.push(format!("{heading}: {}\n", counted(accepted.len(), DRIFTED)));
            page.push(table(accepted.iter().map(|found| (&found.drift, None, found.documents.last()))));
        }
    }
    page.push(skew_line(&verified.skew));
    if !counting.is_empty() {
        page.push(ways_out(&counting, place));
    }
    page
}

fn verdict(verified: &DriftReport, counting: usize, accepted: usize, page: &mut StyledText) {
    let record = &verified.record;
    page.push(format!("{} (generation {}): ", record.config, record.generation.shown()));
    match (counting, accepted) {
        (0, 0) => page.push_as(TextRole::Added, "no drift"),
        (0, _) => page.push_as(TextRole::Added, "no drift, apart from accepted paths"),
        (count, _) => page.push_as(TextRole::Alarm, counted(count, DRIFTED)),
    };
    page.push("\n");
}

/// Say how the drift is shown in detail, and how it is undone.
fn ways_out(counting: &[&DriftFinding], place: &TargetArgs) -> String {
    let (option, config) = (place.as_option(), place.applied_config());
    let is_repairable =
        counting.iter().any(|found| found.policy == DriftPolicy::Repair && found.obstacle.is_none());
    let repair = if is_repairable {
        format!("repair: `flameholder verify --repair{option}` undoes the drift of paths with that policy\n")
    } else {
        String::new()
    };
    format!(
        "details: `flameholder verify --diff{option}`\n{repair}undo: `flameholder apply{option} --desired {config}` \
        undoes all but modes, owners and labels of directories\n"
    )
}

/// Drift of a path, its policy, and the document that it comes from.
type DriftRow<'a> = (&'a Drift, Option<DriftPolicy>, Option<&'a String>);

/// Lay out drift as a table: path, property, values, the policy where it is not said above, and the document if there are
/// several.
fn table<'a>(drift: impl Iterator<Item = DriftRow<'a>>) -> String {
    let mut rows: Vec<[String; 6]> = drift
        .map(|(drift, policy, document)| {
            let difference = drift.difference.as_ref();
            let value = |value: Option<&String>| {
                value.map_or_else(|| "-".to_owned(), |value| harmless_line(value).into_owned())
            };
            [
                drift.path.to_string(),
                property(drift.kind).to_owned(),
                value(difference.map(|difference| &difference.expected)),
                value(difference.map(|difference| &difference.found)),
                policy.map_or("", DriftPolicy::as_str).to_owned(),
                document.cloned().unwrap_or_default(),
            ]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let is_empty = |row: &[String; 6], column: usize| row.get(column).is_none_or(String::is_empty);
    let heading = |column, heading| if rows.iter().all(|row| is_empty(row, column)) { "" } else { heading };
    let (policy, document) = (heading(4, "POLICY"), heading(5, "FROM"));
    rows.insert(0, ["PATH", "DIFFERS", "WAS", "IS", policy, document].map(str::to_owned));
    let mut widths = [0; 6];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            let length = cell.chars().count();
            if length <= LONGEST_ALIGNED {
                *width = length.max(*width);
            }
        }
    }
    let line = |row: &[String; 6]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("  {}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

/// Name the property that differs.
fn property(kind: DriftKind) -> &'static str {
    match kind {
        DriftKind::Missing => "missing",
        DriftKind::Unexpected => "unexpected",
        DriftKind::Type => "type",
        DriftKind::Content => "content",
        DriftKind::Mode => "mode",
        DriftKind::Owner => "owner",
        DriftKind::Xattrs => "xattrs",
        DriftKind::Label => "label",
        DriftKind::Target => "target",
        DriftKind::Enablement => "enablement",
        DriftKind::Password => "password",
        DriftKind::KernelArguments => "kernel arguments",
        DriftKind::FipsMode => "FIPS mode",
    }
}

/// Describe the kernel arguments that take effect with the next full reboot; empty without any.
pub(crate) fn skew_line(skew: &ArgumentSkew) -> String {
    let changes: Vec<String> = [("added", &skew.added), ("removed", &skew.removed)]
        .into_iter()
        .filter(|(_, arguments)| !arguments.is_empty())
        .map(|(change, arguments)| format!("{change} {arguments}"))
        .collect();
    if changes.is_empty() {
        return String::new();
    }
    format!("kernel arguments in effect after the next full reboot: {}\n", changes.join("; "))
}
