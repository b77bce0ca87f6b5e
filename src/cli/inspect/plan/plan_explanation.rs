//! `flameholder plan --explain`: each source that says something about a path, and what becomes of it.

use crate::cli::inspect::plan::plan_changes::{attributes, unit_state};
use crate::cli::output::styled_text::{StyledText, TextRole};
use crate::cli::output::words::counted;
use crate::core::config::host_config::HostConfig;
use crate::core::config::managed_files::is_of_unit;
use crate::core::plan::steps::disk_effect::DiskEffect;
use crate::core::plan::{Plan, TreePlan};
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::ChangeKind;

/// Label of the current config.
const CURRENT: &str = "current config";
/// Column in which values start, behind their labels.
const VALUES: usize = 20;

/// Sources of a path, the one that wins first, and the effects of the plan on it.
#[derive(Debug)]
pub(crate) struct PathExplanation<'a> {
    pub(crate) path: &'a ManagedPath,
    pub(crate) plan: &'a Plan,
    pub(crate) current: Option<&'a HostConfig>,
    pub(crate) desired: &'a HostConfig,
    /// True if the image brings the path; `None` where no tree was read.
    pub(crate) is_in_image: Option<bool>,
}

impl PathExplanation<'_> {
    /// Explain the path in a page.
    pub(crate) fn render(&self) -> StyledText {
        let mut text = StyledText::default();
        text.push_as(TextRole::Heading, self.path).push("\n");
        let sources = self.sources();
        for (index, (label, saying)) in sources.iter().enumerate() {
            text.push(format!("  {label:<width$}{saying}", width = VALUES - 2));
            // A path that only the current config names is removed.
            if index == 0 && sources.len() > 1 && *label != CURRENT {
                text.push("  ").push_as(TextRole::Added, "<- wins");
            }
            text.push("\n");
        }
        if sources.is_empty() {
            text.push("  no config, no local change and no image names it\n");
            return text;
        }
        for (label, saying) in self.effects() {
            text.push(format!("  {label:<width$}{saying}\n", width = VALUES - 2));
        }
        text
    }

    /// Sources that say something about the path, the one that wins first.
    fn sources(&self) -> Vec<(&'static str, String)> {
        let tree = self.plan.tree.as_ref();
        let local = tree.and_then(|tree| self.local_change(tree));
        let local = local.or_else(|| self.unmanaged_change().map(|saying| (saying, true)));
        let desired = entry(self.desired, self.path);
        let current = self.current.and_then(|current| entry(current, self.path));
        let local_wins = local.as_ref().is_some_and(|(_, wins)| *wins) || desired.is_none();
        let named = |config: &HostConfig, saying: String| {
            format!("{}: {saying}{}", config.name, documents(config, self.path))
        };
        let desired = desired.map(|saying| ("desired config", named(self.desired, saying)));
        let local = local.map(|(saying, _)| ("local change", saying));
        let (first, second) = if local_wins { (local, desired) } else { (desired, local) };
        let current = self.current.zip(current);
        let current = current.map(|(config, saying)| (CURRENT, named(config, saying)));
        let image = (self.is_in_image == Some(true)).then(|| ("OS image", format!("/usr{}", self.path)));
        [first, second, current, image].into_iter().flatten().collect()
    }

    /// Describe a local change of a managed path, or a local file where the config brings one; true if it wins.
    fn local_change(&self, tree: &TreePlan) -> Option<(String, bool)> {
        if tree.merges.merged.contains(self.path) {
            return Some(("kept, merged into the desired contents (drift policy `merge`)".to_owned(), true));
        }
        if let Some(conflict) = tree.merges.conflicts.iter().find(|conflict| conflict.path == *self.path) {
            return Some((format!("contradicts the desired config: {}", conflict.reason), false));
        }
        if let Some(drift) = tree.drift.iter().find(|drift| drift.path == *self.path) {
            let is_undone = tree.restored().iter().any(|restored| restored.path == drift.path);
            let outcome = if is_undone { "undone" } else { "left as it is" };
            return Some((format!("{}; {outcome}", drift.description()), !is_undone));
        }
        let replaces = tree.effect_on(self.path) == Some(DiskEffect::ReplacesLocal);
        replaces.then(|| ("a file that no config brought; it is replaced, and kept aside".to_owned(), false))
    }

    /// Describe a local change of a path that no config manages.
    fn unmanaged_change(&self) -> Option<String> {
        let findings = &self.plan.etc.as_ref()?.findings;
        let path = std::path::Path::new(self.path.as_str()).strip_prefix("/etc").ok()?;
        if findings.losses.iter().any(|loss| loss.path == path) {
            return Some("lost with the next deployment: libostree does not carry it over".to_owned());
        }
        if findings.conflicts.iter().any(|both| both.path == path) {
            return Some("kept over a change of the image".to_owned());
        }
        findings.kept.iter().any(|kept| kept.path == path).then(|| "kept".to_owned())
    }

    /// List the effects of the plan on the path, and the disruption that it causes.
    fn effects(&self) -> Vec<(&'static str, String)> {
        let diff = &self.plan.diff;
        let unit = diff.units.iter().find(|(name, _)| is_of_unit(name, self.path));
        let item =
            [&diff.files, &diff.directories, &diff.links].into_iter().find_map(|items| items.get(self.path));
        let changed = item.or(unit.map(|(_, item)| item));
        let name = unit.map_or(self.path.as_str(), |(name, _)| name.as_str());
        let effect = changed.map(|item| match item.change {
            ChangeKind::Add => "added".to_owned(),
            ChangeKind::Modify => format!("changed: {}", item.reasons.join(", ")),
            ChangeKind::Remove => "removed".to_owned(),
        });
        let mut effects =
            vec![("effect", effect.unwrap_or_else(|| "none: the configs say the same".to_owned()))];
        for required in &self.plan.disruption.actions {
            let names = |because: &&String| because.split(' ').any(|word| word == name);
            if let Some(because) = required.because.iter().find(names) {
                effects.push(("disruption", format!("{}, because {because}", required.action)));
            }
        }
        effects
    }
}

/// Return the field of `config` that brings `path`, with its value in short.
fn entry(config: &HostConfig, path: &ManagedPath) -> Option<String> {
    if let Some(file) = config.files.get(path) {
        let size = counted(file.with_appended().len(), "byte");
        let attributes = attributes(file.mode, &file.owner);
        return Some(format!("spec.config.storage.files[{}], {attributes}, {size}", file.index));
    }
    if let Some(directory) = config.directories.get(path) {
        let attributes = attributes(directory.mode, &directory.owner);
        return Some(format!("spec.config.storage.directories[{}], {attributes}", directory.index));
    }
    if let Some(link) = config.links.get(path) {
        return Some(format!("spec.config.storage.links[{}], to {}", link.index, link.target));
    }
    let (_, unit) = config.units.iter().find(|(name, _)| is_of_unit(name, path))?;
    Some(format!("spec.config.systemd.units[{}], {}", unit.index, unit_state(unit)))
}

/// Name the document that a path comes from, and those that list it as well and lose.
fn documents(config: &HostConfig, path: &ManagedPath) -> String {
    match config.documents_of(path) {
        [] => String::new(),
        [only] => format!(", from {only}"),
        [others @ .., last] => format!(", from {last}, over {}", others.join(" and ")),
    }
}
