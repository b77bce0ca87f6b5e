//! Text form of a plan: changes, contents, disruption with its reasons, obstacles, drift and the merge of
//! `/etc`.

use std::collections::BTreeMap;

use crate::cli::inspect::etc_diff;
use crate::cli::output::styled_text::{StyledText, TextRole};
use crate::cli::output::text_diff;
use crate::cli::output::text_diff::ContentChange;
use crate::core::config::host_config::HostConfig;
use crate::core::config::managed_files::unit_path;
use crate::core::config::policy::DisruptionAction;
use crate::core::etc_merge::{LostChange, display_path};
use crate::core::plan::diff::ChangedItem;
use crate::core::plan::drift::Drift;
use crate::core::plan::steps::disk_effect::DiskEffect;
use crate::core::plan::{MergeImage, Plan, PreflightCheck};
use crate::core::values::identifiers::ConfigName;
use crate::core::values::image::redact_credentials;
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::ChangeKind;

/// Reasons listed per action; further ones are counted.
const LISTED_REASONS: usize = 8;

/// Reader of a plan's text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlanAudience {
    /// True if contents that differ are shown.
    pub(crate) show_contents: bool,
    /// True if no running host applies the plan: nothing is drained or rebooted.
    pub(crate) is_hypothetical: bool,
}

/// Render the plan from `current` to `desired`.
pub(crate) fn render(
    plan: &Plan,
    current: Option<&HostConfig>,
    desired: &HostConfig,
    audience: PlanAudience,
) -> StyledText {
    let contents = text_diff::content_changes(&plan.diff, current, desired);
    let mut page = Page { text: StyledText::default() };
    page.head(plan);
    page.changes(plan, &contents);
    if audience.show_contents && !contents.is_empty() {
        page.heading("Contents");
        for (path, change) in &contents {
            change.write(path, &mut page.text);
        }
    }
    page.disruption(plan, audience.is_hypothetical);
    page.obstacles(plan);
    page.tree(plan);
    page.etc(plan);
    page.list("Not supported here", &plan.unsupported);
    page.list("Put in place at activation", &plan.deferred);
    page.list("Warnings", &plan.warnings);
    page.text
}

struct Page {
    text: StyledText,
}

impl Page {
    fn heading(&mut self, heading: &str) {
        self.text.push("\n").push_as(TextRole::Heading, heading).push("\n");
    }

    fn line(&mut self, line: &str) {
        self.text.push(format!("  {line}\n"));
    }

    fn faint(&mut self, line: &str) {
        self.text.push("    ").push_as(TextRole::Faint, line).push("\n");
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
        self.text.push_as(TextRole::Heading, title);
        self.text.push(format!("\n  from {from}, profile {}\n", plan.profile.as_str()));
    }

    fn changes(&mut self, plan: &Plan, contents: &BTreeMap<ManagedPath, ContentChange>) {
        self.heading("Changes");
        if !plan.has_differences() {
            return self.line("none");
        }
        let diff = &plan.diff;
        for (what, section) in
            [("directory", &diff.directories), ("file", &diff.files), ("link", &diff.links)]
        {
            for (path, changed) in section {
                let on_disk = plan.tree.as_ref().and_then(|tree| tree.effect_on(path));
                self.change(what, path.as_str(), changed, contents.get(path), on_disk);
            }
        }
        for (name, changed) in &diff.units {
            self.change("unit", name, changed, contents.get(&unit_path(name)), None);
        }
        self.os(plan);
        for (changed, what) in [
            (diff.ssh_keys, "authorized keys of core"),
            (diff.password, "password hash of core"),
            (diff.fips, "FIPS mode"),
        ] {
            if changed {
                self.text.push("  ").push_as(TextRole::Changed, "~").push(format!(" {what}\n"));
            }
        }
    }

    fn change(
        &mut self,
        what: &str,
        name: &str,
        changed: &ChangedItem,
        contents: Option<&ContentChange>,
        on_disk: Option<DiskEffect>,
    ) {
        let ((role, sign), note) = match on_disk {
            Some(DiskEffect::Unchanged) => ((TextRole::Faint, "="), "; already so on the disk"),
            Some(DiskEffect::ReplacesLocal) => (
                etc_diff::sign(ChangeKind::Modify),
                "; replaces a local file, which is kept and returns when the path is no longer managed",
            ),
            _ => (etc_diff::sign(changed.change), ""),
        };
        let sizes = contents.map(|contents| format!(" ({})", contents.summary())).unwrap_or_default();
        self.text.push("  ").push_as(role, sign).push(format!(" {what} {name}  "));
        self.text.push_as(TextRole::Faint, changed.reasons.join(", ") + &sizes + note).push("\n");
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
            self.text.push("  ").push_as(TextRole::Changed, "~").push(format!(" {what}\n"));
            self.text.push("      from ").push_as(TextRole::Removed, from).push("\n");
            self.text.push("      to   ").push_as(TextRole::Added, to).push("\n");
        }
    }

    fn disruption(&mut self, plan: &Plan, is_hypothetical: bool) {
        self.heading(if is_hypothetical { "Disruption: none here; on a running host" } else { "Disruption" });
        if plan.disruption.drain {
            self.line("the node is drained first");
        }
        let drain = DisruptionAction::Drain;
        for required in plan.disruption.actions.iter().filter(|required| required.action != drain) {
            self.line(&required.action.to_string());
            for because in required.because.iter().take(LISTED_REASONS) {
                self.faint(&format!("because {because}"));
            }
            let more = required.because.len().saturating_sub(LISTED_REASONS);
            if more > 0 {
                self.faint(&format!("and for {more} more reasons"));
            }
        }
    }

    fn obstacles(&mut self, plan: &Plan) {
        let obstacles = plan.obstacles();
        if obstacles.is_empty() {
            return;
        }
        self.text.push("\n").push_as(TextRole::Alarm, "This cannot be applied").push("\n");
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
        let line = |drift: &Drift| format!("{}  {}", drift.path, drift.description());
        let merged: Vec<String> = tree.merges.merged.iter().map(ToString::to_string).collect();
        self.list("Local changes that `apply` keeps", &merged);
        let restored = tree.restored();
        let lines: Vec<String> = restored.iter().map(|drift| line(drift)).collect();
        self.list("Drift that `apply` undoes", &lines);
        let rest = tree.drift.iter().filter(|drift| !restored.contains(drift));
        self.list("Drift that stays", &rest.map(line).collect::<Vec<_>>());
        if tree.preflight.is_empty() {
            return;
        }
        self.heading("Checked");
        for PreflightCheck { ok, detail, .. } in &tree.preflight {
            self.text.push("  ");
            if !ok {
                self.text.push_as(TextRole::Alarm, "missing: ");
            }
            self.text.push(format!("{detail}\n"));
        }
    }
}
