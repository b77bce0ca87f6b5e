//! Text form of a plan: the verdict first, then the changes by effect, what becomes of local changes, and one last line
//! for `grep`.

use indicatif::HumanBytes;

use crate::cli::inspect::etc_diff;
use crate::cli::inspect::plan::plan_changes::{ChangeCount, ChangeRow, ChangeSections, RowSign};
use crate::cli::output::styled_text::{StyledText, TextRole};
use crate::cli::output::text_diff;
use crate::cli::output::words::counted;
use crate::core::config::host_config::HostConfig;
use crate::core::config::policy::{CONTAINER_RUNTIME, DisruptionAction};
use crate::core::etc_merge::display_path;
use crate::core::plan::drift::Drift;
use crate::core::plan::{FetchSize, MergeImage, Plan};
use crate::core::values::identifiers::ConfigName;

/// Reasons listed per action; further ones are counted.
const LISTED_REASONS: usize = 3;
/// Column in which values start, behind their labels.
const VALUES: usize = 20;
/// Longest name of a path that others are aligned with.
const LONGEST_ALIGNED: usize = 44;

/// Extent of a plan's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PlanDetail {
    /// Verdict and counts.
    Summary,
    /// Also each path.
    Paths,
    /// Also the line numbers of changes in contents.
    LineNumbers,
    /// Also contents that differ.
    Contents,
}

/// Reader of a plan's text.
#[derive(Debug, Clone)]
pub(crate) struct PlanAudience {
    pub(crate) detail: PlanDetail,
    /// True if no running host applies the plan: nothing is drained or rebooted.
    pub(crate) is_hypothetical: bool,
    /// Command that applies the plan; `None` where the desired config cannot be read again.
    pub(crate) apply: Option<String>,
}

/// Render the plan from `current` to `desired`.
pub(crate) fn render(
    plan: &Plan,
    current: Option<&HostConfig>,
    desired: &HostConfig,
    audience: &PlanAudience,
) -> StyledText {
    let contents = text_diff::content_changes(&plan.diff, current, desired);
    let sections = ChangeSections::of(plan, &contents, desired);
    let mut page = Page { text: StyledText::default(), detail: audience.detail };
    page.head(plan);
    page.obstacles(plan);
    page.verdict(plan, audience.is_hypothetical);
    page.text.push("\n");
    for (label, rows) in sections.rows {
        page.section(label, &ChangeCount::of(&rows).to_string(), &rows);
    }
    for (label, rows) in sections.values {
        page.values(label, &rows);
    }
    if let Some(FetchSize { layers, bytes }) = plan.fetch {
        page.row("to fetch", &format!("{} in {}", HumanBytes(bytes), counted(layers, "layer")));
    }
    if !sections.count.is_any() {
        page.row("changes", "none");
    }
    page.drift(plan);
    page.etc(plan);
    page.list("not supported", "", &plan.unsupported);
    page.list("deferred", ", put in place when the generation is activated", &plan.deferred);
    page.list("warnings", "", &plan.warnings);
    page.checks(plan);
    if audience.detail >= PlanDetail::LineNumbers && !contents.is_empty() {
        page.text.push("\n").push_as(TextRole::Heading, "Contents").push("\n");
        for (path, change) in &contents {
            change.write(path, audience.detail == PlanDetail::Contents, &mut page.text);
        }
    }
    page.last_line(plan, sections.count, audience);
    page.text
}

struct Page {
    text: StyledText,
    detail: PlanDetail,
}

impl Page {
    /// Add a label and its value.
    fn row(&mut self, label: &str, value: &str) {
        self.text.push(format!("  {label:<width$}{value}\n", width = VALUES - 2));
    }

    /// Add a label with a count, and below it the items, which a summary leaves out.
    fn section(&mut self, label: &str, count: &str, rows: &[ChangeRow]) {
        if rows.is_empty() {
            return;
        }
        self.row(label, count);
        if self.detail == PlanDetail::Summary {
            return;
        }
        let lengths = rows.iter().filter(|row| !row.note.is_empty()).map(|row| row.name.chars().count());
        let width = lengths.max().unwrap_or_default().min(LONGEST_ALIGNED);
        for ChangeRow { sign, name, note } in rows {
            let (role, sign) = sign.styled();
            self.text.push("    ").push_as(role, sign);
            if note.is_empty() {
                self.text.push(format!(" {name}\n"));
            } else {
                self.text.push(format!(" {name:<width$}  ")).push_as(TextRole::Faint, note).push("\n");
            }
        }
    }

    /// Add a label, and values that come and go beside it.
    fn values(&mut self, label: &str, rows: &[(RowSign, String)]) {
        for (index, (sign, value)) in rows.iter().enumerate() {
            let label = if index == 0 { label } else { "" };
            let (role, sign) = sign.styled();
            self.text.push(format!("  {label:<width$}", width = VALUES - 2));
            self.text.push_as(role, format!("{sign} {value}")).push("\n");
        }
    }

    /// Add a label with the number of items, and the items.
    fn list(&mut self, label: &str, about: &str, items: &[String]) {
        if items.is_empty() {
            return;
        }
        self.row(label, &format!("{}{about}", items.len()));
        if self.detail > PlanDetail::Summary {
            for item in items {
                self.text.push(format!("    {item}\n"));
            }
        }
    }

    fn head(&mut self, plan: &Plan) {
        let from = plan.current.as_ref().map_or("no config", ConfigName::as_str);
        self.text.push_as(TextRole::Heading, format!("Plan: {from} → {}", plan.desired));
        self.text.push(format!("  (profile {})\n\n", plan.profile.as_str()));
    }

    fn obstacles(&mut self, plan: &Plan) {
        let obstacles = plan.obstacles();
        if obstacles.is_empty() {
            return;
        }
        self.text.push("  ").push_as(TextRole::Alarm, "This cannot be applied:").push("\n");
        for obstacle in &obstacles {
            self.text.push(format!("    {obstacle}\n"));
        }
        self.text.push("\n");
    }

    /// Say what applying the plan disturbs.
    fn verdict(&mut self, plan: &Plan, is_hypothetical: bool) {
        if is_hypothetical {
            self.row("here", "nothing is drained, restarted or rebooted; on a running host:");
        }
        let reboots = plan.disruption.reboots();
        self.row("reboot", yes_or_no(reboots));
        let (reboot, services): (Vec<_>, Vec<_>) = plan
            .disruption
            .actions
            .iter()
            .filter(|required| !matches!(required.action, DisruptionAction::None | DisruptionAction::Drain))
            .partition(|required| required.action == DisruptionAction::Reboot);
        for required in reboot {
            self.reasons(&required.because);
        }
        self.row("drain", yes_or_no(plan.disruption.drain));
        for (index, required) in services.iter().enumerate() {
            let label = if index == 0 { "services" } else { "" };
            self.row(label, &service_action(&required.action));
            self.reasons(&required.because);
        }
        if services.is_empty() && !reboots {
            self.row("services", "none");
        }
    }

    fn reasons(&mut self, because: &[String]) {
        let mut faint = |line: String| {
            self.text.push(" ".repeat(VALUES + 2)).push_as(TextRole::Faint, line).push("\n");
        };
        because.iter().take(LISTED_REASONS).for_each(|because| faint(format!("because {because}")));
        let more = because.len().saturating_sub(LISTED_REASONS);
        if more > 0 {
            faint(format!("and for {}; -o json names them", counted(more, "more reason")));
        }
    }

    /// Tell what becomes of local changes in a tree.
    fn drift(&mut self, plan: &Plan) {
        let Some(tree) = &plan.tree else { return };
        let rows = |drift: &[&Drift]| -> Vec<ChangeRow> {
            let row = |drift: &&Drift| {
                ChangeRow::new(RowSign::Changed, drift.path.to_string(), drift.description())
            };
            drift.iter().map(row).collect()
        };
        let restored = tree.restored();
        let stays: Vec<&Drift> = tree.drift.iter().filter(|drift| !restored.contains(drift)).collect();
        self.section("drift", &format!("{} undone by `apply`", restored.len()), &rows(&restored));
        self.section("other drift", &format!("{} that stays", stays.len()), &rows(&stays));
        let merged: Vec<String> = tree.merges.merged.iter().map(ToString::to_string).collect();
        self.list("local changes", " kept, as the drift policy `merge` says", &merged);
    }

    /// List the findings of the `/etc` merge. Refusals of a merge with a new image are obstacles already;
    /// with the present image they are listed here.
    fn etc(&mut self, plan: &Plan) {
        let Some(etc) = plan.etc.as_ref().filter(|etc| etc.is_due) else { return };
        let lost: Vec<ChangeRow> = etc
            .findings
            .losses
            .iter()
            .map(|loss| {
                let lost = etc_diff::in_words(loss.lost).to_owned();
                ChangeRow::new(RowSign::of(loss.change), display_path(&loss.path), lost)
            })
            .collect();
        self.section(
            "merge of /etc",
            &format!("{} lost (`flameholder etc-diff`)", counted(lost.len(), "local change")),
            &lost,
        );
        if etc.with == MergeImage::Present {
            let refusals: Vec<String> = etc.findings.refusals.iter().map(ToString::to_string).collect();
            self.list("merge of /etc", " refused by libostree, unless the new image differs", &refusals);
        }
    }

    fn checks(&mut self, plan: &Plan) {
        let checks = plan.tree.iter().flat_map(|tree| &tree.preflight);
        let (passed, failed): (Vec<_>, Vec<_>) = checks.partition(|check| check.ok);
        for check in failed {
            self.text.push(format!("  {:<width$}", "missing", width = VALUES - 2));
            self.text.push_as(TextRole::Alarm, &check.detail).push("\n");
        }
        let passed: Vec<String> = passed.iter().map(|check| check.detail.clone()).collect();
        self.list("checked", "", &passed);
    }

    /// Add the line for `grep`: changes, disruption, and the next command.
    fn last_line(&mut self, plan: &Plan, count: ChangeCount, audience: &PlanAudience) {
        let obstacles = plan.obstacles().len();
        let restored = plan.tree.as_ref().map_or(0, |tree| tree.restored().len());
        self.text.push("\n");
        if obstacles > 0 {
            let problems = counted(obstacles, "problem");
            self.text.push_as(TextRole::Heading, format!("Plan: cannot be applied, {problems}.")).push("\n");
            return;
        }
        if !plan.changes_host() {
            self.text.push_as(TextRole::Heading, "Plan: no changes.").push("\n");
            return;
        }
        let ChangeCount { added, changed, removed, .. } = count;
        let drift = if restored > 0 { format!(", {restored} to restore") } else { String::new() };
        let disruption = match (audience.is_hypothetical, plan.disruption.reboots(), plan.disruption.drain) {
            (true, ..) => "nothing is disturbed here",
            (false, true, _) => "1 reboot",
            (false, false, true) => "no reboot, 1 drain",
            (false, false, false) => "no reboot",
        };
        let summary =
            format!("Plan: {added} to add, {changed} to change, {removed} to remove{drift}; {disruption}.");
        self.text.push_as(TextRole::Heading, summary);
        if let Some(apply) = &audience.apply {
            self.text.push(format!(" Apply: {apply}"));
        }
        self.text.push("\n");
    }
}

fn yes_or_no(is_so: bool) -> &'static str {
    if is_so { "yes" } else { "no" }
}

/// Describe an action on a service as the command that does it.
fn service_action(action: &DisruptionAction) -> String {
    match action {
        DisruptionAction::DaemonReload => "systemctl daemon-reload".to_owned(),
        DisruptionAction::Reload(unit) => format!("reload {unit}"),
        DisruptionAction::Restart(unit) => format!("restart {unit}"),
        DisruptionAction::Special => format!("reload {CONTAINER_RUNTIME}"),
        DisruptionAction::None | DisruptionAction::Drain | DisruptionAction::Reboot => action.to_string(),
    }
}
