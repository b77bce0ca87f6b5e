//! Text form of a plan: changes, contents, disruption with its reasons, obstacles, drift and the merge of
//! `/etc`.

use crate::cli::inspect::etc_diff;
use crate::cli::output::paint::{TextPainter, TextRole};
use crate::cli::output::text_diff;
use crate::core::config::host_config::HostConfig;
use crate::core::config::policy::DisruptionAction;
use crate::core::etc_merge::{LostChange, display_path};
use crate::core::plan::diff::ChangedItem;
use crate::core::plan::{MergeImage, Plan, PreflightCheck};
use crate::core::values::identifiers::ConfigName;
use crate::core::values::image::redact_credentials;
use crate::core::values::tree::ChangeKind;

/// Reasons listed per action; further ones are counted.
const LISTED_REASONS: usize = 8;

/// Render the plan from `current` to `desired`.
pub(crate) fn render(
    plan: &Plan,
    current: Option<&HostConfig>,
    desired: &HostConfig,
    show_secrets: bool,
    paint: TextPainter,
) -> String {
    let mut page = Page { paint, text: String::new() };
    page.head(plan);
    page.changes(plan);
    let diffs = text_diff::render(&plan.diff, current, desired, show_secrets, paint);
    if !diffs.is_empty() {
        page.heading("Contents");
        page.text.push_str(&diffs);
    }
    page.disruption(plan);
    page.obstacles(plan);
    page.tree(plan);
    page.etc(plan);
    page.list("Not supported here", &plan.unsupported);
    page.list("Put in place at activation", &plan.deferred);
    page.list("Warnings", &plan.warnings);
    page.text
}

struct Page {
    paint: TextPainter,
    text: String,
}

impl Page {
    fn heading(&mut self, heading: &str) {
        let heading = self.paint.paint(TextRole::Heading, heading);
        self.text.push_str(&format!("\n{heading}\n"));
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(&format!("  {line}\n"));
    }

    fn list(&mut self, heading: &str, items: &[String]) {
        if !items.is_empty() {
            self.heading(heading);
            for item in items {
                self.line(item);
            }
        }
    }

    fn head(&mut self, plan: &Plan) {
        let from = plan.current.as_ref().map_or("no recorded config", ConfigName::as_str);
        let title = format!("Plan for {}", plan.desired);
        self.text.push_str(&self.paint.paint(TextRole::Heading, &title));
        self.text.push_str(&format!("\n  from {from}, profile {}\n", plan.profile.as_str()));
    }

    fn changes(&mut self, plan: &Plan) {
        self.heading("Changes");
        if !plan.has_differences() {
            return self.line("none");
        }
        let diff = &plan.diff;
        for (what, section) in
            [("directory", &diff.directories), ("file", &diff.files), ("link", &diff.links)]
        {
            for (path, changed) in section {
                self.change(what, path.as_str(), changed);
            }
        }
        for (name, changed) in &diff.units {
            self.change("unit", name, changed);
        }
        self.os(plan);
        for (changed, what) in [
            (diff.ssh_keys, "authorized keys of core"),
            (diff.password, "password hash of core"),
            (diff.fips, "FIPS mode"),
        ] {
            if changed {
                let sign = self.paint.paint(TextRole::Changed, "~");
                self.line(&format!("{sign} {what}"));
            }
        }
    }

    fn change(&mut self, what: &str, name: &str, changed: &ChangedItem) {
        let (role, sign) = match changed.change {
            ChangeKind::Add => (TextRole::Added, "+"),
            ChangeKind::Modify => (TextRole::Changed, "~"),
            ChangeKind::Remove => (TextRole::Removed, "-"),
        };
        let sign = self.paint.paint(role, sign);
        let reasons = self.paint.paint(TextRole::Faint, &changed.reasons.join(", "));
        self.line(&format!("{sign} {what} {name}  {reasons}"));
    }

    fn os(&mut self, plan: &Plan) {
        let (diff, from, to) = (&plan.diff, &plan.current_os, &plan.desired_os);
        let none = || "none".to_owned();
        let joined = |items: &[String]| if items.is_empty() { none() } else { items.join(" ") };
        let arguments = |os: &crate::core::config::host_config::OsSpec| {
            if os.kernel_arguments.is_empty() { none() } else { os.kernel_arguments.to_string() }
        };
        let image = |image: &Option<String>| image.as_deref().map_or_else(none, redact_credentials);
        let rows = [
            (diff.os_image, "OS image", image(&from.image), image(&to.image)),
            (diff.kernel_arguments, "kernel arguments", arguments(from), arguments(to)),
            (
                diff.kernel_type,
                "kernel type",
                from.kernel_type.as_str().into(),
                to.kernel_type.as_str().into(),
            ),
            (diff.extensions, "extensions", joined(&from.extensions), joined(&to.extensions)),
        ];
        for (_, what, from, to) in rows.into_iter().filter(|(changed, ..)| *changed) {
            let sign = self.paint.paint(TextRole::Changed, "~");
            let (from, to) =
                (self.paint.paint(TextRole::Removed, &from), self.paint.paint(TextRole::Added, &to));
            self.line(&format!("{sign} {what}"));
            self.line(&format!("    from {from}"));
            self.line(&format!("    to   {to}"));
        }
    }

    fn disruption(&mut self, plan: &Plan) {
        self.heading("Disruption");
        if plan.disruption.drain {
            self.line("the node is drained first");
        }
        for required in &plan.disruption.actions {
            let what = match &required.action {
                DisruptionAction::None => "no disruption".to_owned(),
                DisruptionAction::DaemonReload => "systemd reloads its units (daemon-reload)".to_owned(),
                DisruptionAction::Reload(unit) => format!("{unit} is reloaded"),
                DisruptionAction::Restart(unit) => format!("{unit} is restarted"),
                DisruptionAction::Special => "crio.service is reloaded".to_owned(),
                DisruptionAction::Drain => continue,
                DisruptionAction::Reboot => "the host reboots".to_owned(),
            };
            self.line(&what);
            for because in required.because.iter().take(LISTED_REASONS) {
                let because = self.paint.paint(TextRole::Faint, &format!("because {because}"));
                self.line(&format!("  {because}"));
            }
            let more = required.because.len().saturating_sub(LISTED_REASONS);
            if more > 0 {
                let more = self.paint.paint(TextRole::Faint, &format!("and for {more} more reasons"));
                self.line(&format!("  {more}"));
            }
        }
    }

    fn obstacles(&mut self, plan: &Plan) {
        let obstacles = plan.obstacles();
        if obstacles.is_empty() {
            return;
        }
        let heading = self.paint.paint(TextRole::Alarm, "This cannot be applied");
        self.text.push_str(&format!("\n{heading}\n"));
        for obstacle in &obstacles {
            self.line(obstacle);
        }
    }

    /// List the findings of the `/etc` merge. Refusals of a merge with a new image are obstacles already;
    /// with the present image they are listed here.
    fn etc(&mut self, plan: &Plan) {
        let Some(etc) = plan.etc.as_ref().filter(|etc| etc.is_due) else { return };
        let line =
            |loss: &LostChange| format!("{}  {}", display_path(&loss.path), etc_diff::in_words(loss.lost));
        let lines: Vec<String> = etc.findings.losses.iter().map(line).collect();
        self.list("Lost: local changes that libostree does not carry over", &lines);
        if etc.with == MergeImage::Present {
            let lines: Vec<String> = etc.findings.refusals.iter().map(ToString::to_string).collect();
            self.list("Refused by libostree, unless the new image differs from the present one", &lines);
        }
    }

    fn tree(&mut self, plan: &Plan) {
        let Some(tree) = &plan.tree else { return };
        let drift: Vec<String> =
            tree.drift.iter().map(|drift| format!("{}  {}", drift.path, drift.kind)).collect();
        self.list("Drift: differs from the record", &drift);
        let marked = |check: &PreflightCheck| {
            let mark = if check.ok { String::new() } else { self.paint.paint(TextRole::Alarm, "missing: ") };
            format!("{mark}{}", check.detail)
        };
        let checks: Vec<String> = tree.preflight.iter().map(marked).collect();
        self.list("Checked", &checks);
    }
}
