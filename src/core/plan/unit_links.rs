//! Enablement of units: the `systemctl enable`, `disable` and `preset` calls that a change amounts to, and
//! the symbolic links that they would leave in the tree.

use std::collections::{BTreeMap, BTreeSet};

use super::diff::ConfigDiff;
use super::drift::{Drift, DriftDifference};
use super::facts::TreeFacts;
use super::steps::{LinkChange, PathObstruction};
use super::unit_texts::PRESET_PATH;
use crate::core::config::host_config::{HostConfig, UNIT_DIRECTORY, UnitSpec};
use crate::core::config::managed_files::{ManagedFiles, unit_path};
use crate::core::config::protected::is_agent_unit;
use crate::core::enablement::{
    EnablementError, EnablementLinks, PresetRules, SEARCH_PATH, UnitFile, UnitFiles, UnitName, UnitOperation,
    UnreadFiles, operate,
};
use crate::core::values::names::{ManagedPath, below};
use crate::core::values::tree::{DriftKind, FileEntry, MASK};

/// Result of enabling and disabling units.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnitLinks {
    /// Links before and after.
    pub change: LinkChange,
    /// Units that the tree lacks, so that they are not enabled, with reasons.
    pub unsupported: Vec<String>,
    /// Units that cannot be enabled, with errors.
    pub obstructions: Vec<PathObstruction>,
}

/// Compute the links after a change from `current` to `desired`. Presets apply only to units that changed, as
/// in MCD, so units that an administrator enabled stay enabled.
#[must_use]
pub fn link_changes(
    facts: &TreeFacts,
    current: Option<&HostConfig>,
    desired: &HostConfig,
    diff: &ConfigDiff,
) -> UnitLinks {
    let mut unread = UnreadFiles::default();
    let retired = retire(facts, &retirements(current, desired, diff), &mut unread);
    evaluate(facts, &facts.desired, desired, &retired, &operations(current, desired, diff), &mut unread)
}

/// Return the unit files that must be read before [`link_changes`] or [`drifted_links`] can be computed.
#[must_use]
pub fn unread_files(facts: &TreeFacts, current: Option<&HostConfig>, desired: &HostConfig) -> UnreadFiles {
    let nothing = HostConfig::default();
    let diff = ConfigDiff::between(current.unwrap_or(&nothing), desired);
    let mut unread = UnreadFiles::default();
    let retired = retire(facts, &retirements(current, desired, &diff), &mut unread);
    evaluate(facts, &facts.desired, desired, &retired, &operations(current, desired, &diff), &mut unread);
    if let Some(current) = current {
        evaluate(facts, &facts.current, current, &facts.links, &explicit(current), &mut unread);
    }
    unread
}

/// Find drift in enablement: links that differ from `config`, for units that it enables or disables itself.
#[must_use]
pub fn drifted_links(facts: &TreeFacts, config: &HostConfig) -> Vec<Drift> {
    let unread = &mut UnreadFiles::default();
    let links = evaluate(facts, &facts.current, config, &facts.links, &explicit(config), unread);
    let made = links.change.made().map(|(path, target)| (path, Some(target.as_str())));
    let differing = made.chain(links.change.removed().map(|path| (path, None)));
    let drift = |(path, expected): (&ManagedPath, Option<&str>)| Drift {
        path: path.clone(),
        kind: DriftKind::Enablement,
        difference: Some(DriftDifference::of_link(expected, facts.links.get(path).map(String::as_str))),
    };
    // A unit that can no longer be enabled, because it is masked for one, is not enabled.
    let failing = links.obstructions.iter().map(|obstruction| &obstruction.path);
    differing.map(drift).chain(failing.map(|path| Drift::new(path.clone(), DriftKind::Enablement))).collect()
}

/// Targets of links, by absolute path.
type PathLinks = BTreeMap<ManagedPath, String>;

/// Remove the links of units that the config no longer contains, or whose `[Install]` section changed; these
/// links follow from the old unit files.
fn retire(facts: &TreeFacts, retirements: &[UnitOperation], unread: &mut UnreadFiles) -> PathLinks {
    if retirements.is_empty() {
        return facts.links.clone();
    }
    let view = View { facts, managed: &facts.current };
    let (files, mut links) = (view.unit_files(), view.links(&facts.links));
    for operation in retirements {
        match operate(&links, &files, &PresetRules::default(), facts.systemd, std::slice::from_ref(operation))
        {
            Ok(outcome) => links = outcome.links,
            Err(EnablementError::NotRead(missing)) => {
                unread.units.extend(missing.units);
                unread.files.extend(missing.files);
            }
            // Its links are removed at this point; the rest of its damaged files is unknown.
            Err(_) => {}
        }
    }
    links.into_iter().filter_map(|(path, target)| Some((link_path(&path)?, target))).collect()
}

/// Return the absolute path of a link below the unit directory; `None` where its name is too long.
fn link_path(below: &str) -> Option<ManagedPath> {
    ManagedPath::parse(&format!("{UNIT_DIRECTORY}/{below}")).ok()
}

/// List the units whose links are removed before all other operations.
fn retirements(current: Option<&HostConfig>, desired: &HostConfig, diff: &ConfigDiff) -> Vec<UnitOperation> {
    let before = current.into_iter().flat_map(|current| &current.units);
    let ours = before.filter(|(unit, spec)| spec.contents.is_some() && diff.units.contains_key(*unit));
    let changed = ours.filter(|(unit, spec)| {
        let after = desired.units.get(*unit).filter(|after| !after.is_masked());
        after.is_none_or(|after| install_text(spec) != install_text(after))
    });
    changed.map(|(unit, _)| UnitOperation::Disable(name(unit))).collect()
}

fn name(unit: &str) -> UnitName {
    UnitName::parse(unit).expect("a config's unit names are checked when it is decoded")
}

/// List the enablement that the config sets explicitly: all enabled units first, then all disabled ones.
fn explicit(config: &HostConfig) -> Vec<UnitOperation> {
    let units = || config.units.iter().filter(|(_, unit)| !unit.is_masked());
    let enabled = units().filter(|(_, unit)| unit.enabled == Some(true));
    let disabled = units().filter(|(_, unit)| unit.enabled == Some(false));
    let enable = enabled.map(|(unit, _)| UnitOperation::Enable(name(unit)));
    enable.chain(disabled.map(|(unit, _)| UnitOperation::Disable(name(unit)))).collect()
}

fn operations(current: Option<&HostConfig>, desired: &HostConfig, diff: &ConfigDiff) -> Vec<UnitOperation> {
    let mut operations = Vec::new();
    let before = current.map(|current| &current.units);
    let gone = before.into_iter().flatten().filter(|(unit, _)| !desired.units.contains_key(*unit));
    // A vendor unit of that name returns to its preset. The agent's own units stay enabled: an installed agent
    // has no preset.
    let gone = gone.filter(|(unit, _)| !is_agent_unit(unit));
    operations.extend(gone.map(|(unit, _)| UnitOperation::Preset(name(unit))));
    let changed = desired.units.iter().filter(|(unit, _)| diff.units.contains_key(*unit));
    let preset =
        changed.filter(|(unit, spec)| spec.enabled.is_none() && !spec.is_masked() && !is_agent_unit(unit));
    operations.extend(preset.map(|(unit, _)| UnitOperation::Preset(name(unit))));
    operations.extend(explicit(desired));
    operations
}

/// Return the lines of the `[Install]` sections, from which links are made.
fn install_text(unit: &UnitSpec) -> Vec<&str> {
    let texts = unit.contents.iter().chain(unit.drop_ins.values());
    let mut lines = Vec::new();
    for text in texts {
        let mut installing = false;
        for line in text.lines().map(str::trim) {
            if line.starts_with('[') {
                installing = line == "[Install]";
            } else if installing {
                lines.push(line);
            }
        }
    }
    lines
}

/// Carry out the operations on the links of `start`, in the tree with the files of `managed`. If `unread` is
/// not empty afterwards, the result is incomplete: read those files and try again.
fn evaluate(
    facts: &TreeFacts,
    managed: &ManagedFiles,
    config: &HostConfig,
    start: &PathLinks,
    operations: &[UnitOperation],
    unread: &mut UnreadFiles,
) -> UnitLinks {
    let view = View { facts, managed };
    let (files, presets) = (view.unit_files(), view.presets());
    let mut links = view.links(start);
    let mut result = UnitLinks::default();
    for operation in operations {
        match operate(&links, &files, &presets, facts.systemd, std::slice::from_ref(operation)) {
            Ok(outcome) => links = outcome.links,
            Err(EnablementError::NotRead(missing)) => {
                unread.units.extend(missing.units);
                unread.files.extend(missing.files);
            }
            Err(error) => result.note(operation, config, &error),
        }
    }
    let free =
        |(path, target): (&ManagedPath, &String)| view.is_free(path).then(|| (path.clone(), target.clone()));
    result.change.before = facts.links.iter().filter_map(free).collect();
    let mut absolute = PathLinks::new();
    for (link, target) in links {
        match link_path(&link) {
            Some(path) => drop(absolute.insert(path, target)),
            None => result.obstructions.push(PathObstruction {
                path: ManagedPath::constant(UNIT_DIRECTORY),
                reason: format!("enabling {target} needs the link {link}, whose name is too long"),
            }),
        }
    }
    result.change.after = absolute
        .iter()
        .filter(|(path, _)| !managed.entries.contains_key(*path))
        .map(|(path, target)| (path.clone(), target.clone()))
        .collect();
    result
}

impl UnitLinks {
    /// Record a failed operation. Only a failed `enable` counts; a failed preset changes nothing, as in MCD.
    fn note(&mut self, operation: &UnitOperation, config: &HostConfig, error: &EnablementError) {
        let UnitOperation::Enable(unit) = operation else { return };
        let index = config.units.get(unit.as_str()).map_or(0, |unit| unit.index);
        let field = format!("spec.config.systemd.units[{index}].enabled");
        match error {
            EnablementError::Missing { .. } => {
                self.unsupported
                    .push(format!("{field}: {unit} is not enabled, since the tree has no such unit"));
            }
            error => {
                let mut reason = format!("{field}: enabling {unit}: {error}");
                let mut cause = std::error::Error::source(error);
                while let Some(deeper) = cause {
                    reason.push_str(&format!(": {deeper}"));
                    cause = deeper.source();
                }
                self.obstructions.push(PathObstruction { path: unit_path(unit.as_str()), reason });
            }
        }
    }
}

/// Future tree: the observed one, overlaid with the files of a configuration.
struct View<'a> {
    facts: &'a TreeFacts,
    managed: &'a ManagedFiles,
}

impl View<'_> {
    /// Return true if neither configuration lists the path itself.
    fn is_free(&self, path: &ManagedPath) -> bool {
        let TreeFacts { current, desired, .. } = self.facts;
        !current.entries.contains_key(path) && !desired.entries.contains_key(path)
    }

    /// Return the future unit file at `path`, as systemd reads it.
    fn at(&self, path: &ManagedPath) -> Option<UnitFile> {
        match self.managed.entries.get(path) {
            Some(FileEntry::File { contents, .. }) => {
                Some(UnitFile::Regular(String::from_utf8_lossy(contents).into_owned()))
            }
            Some(FileEntry::Symlink { target, .. }) => Some(UnitFile::Symlink(target.clone())),
            Some(FileEntry::Unmasked) => match self.facts.unit_texts.get(path) {
                Some(UnitFile::Symlink(target)) if target == MASK => None,
                found => found.cloned(),
            },
            None if self.is_free(path) => self.facts.unit_texts.get(path).cloned(),
            _ => None,
        }
    }

    /// Return the links of `start` that no config lists, and the managed links.
    fn links(&self, start: &PathLinks) -> EnablementLinks {
        let observed = start.iter().filter(|(path, _)| self.is_free(path));
        let mut links: EnablementLinks =
            observed.map(|(path, target)| (below_units(path), target.clone())).collect();
        for (path, _) in self.managed.entries.iter().filter(|(path, _)| path.is_within(UNIT_DIRECTORY)) {
            if let Some(UnitFile::Symlink(target)) = self.at(path) {
                links.insert(below_units(path), target);
            }
        }
        links
    }

    fn unit_files(&self) -> UnitFiles {
        let mut files = UnitFiles::default();
        for unit in &self.facts.looked_up_units {
            let paths = SEARCH_PATH
                .iter()
                .filter_map(|directory| ManagedPath::parse(&format!("{directory}/{unit}")).ok());
            let found = paths.filter_map(|path| Some((path.to_string(), self.at(&path)?)));
            files.add_unit(unit.clone(), found.collect::<Vec<_>>(), self.drop_ins(unit));
        }
        for file in &self.facts.looked_up_files {
            let found = ManagedPath::parse(file).ok().and_then(|path| self.at(&path));
            files.add_file(file.clone(), found);
        }
        files
    }

    /// Return the texts of a unit's drop-ins, those of its template included: one per name, sorted by name.
    fn drop_ins(&self, unit: &UnitName) -> Vec<String> {
        let mut drop_ins: BTreeMap<String, String> = BTreeMap::new();
        for owner in std::iter::once(unit.clone()).chain(unit.template()) {
            for directory in SEARCH_PATH {
                for (name, text) in self.directory(&format!("{directory}/{owner}.d"), ".conf") {
                    drop_ins.entry(name).or_insert(text);
                }
            }
        }
        drop_ins.into_values().collect()
    }

    fn presets(&self) -> PresetRules {
        let mut presets: BTreeMap<String, String> = BTreeMap::new();
        for directory in PRESET_PATH {
            for (name, text) in self.directory(directory, ".preset") {
                presets.entry(name).or_insert(text);
            }
        }
        let files = presets.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        // Lines that systemd ignores come from the image, and are ignored here too.
        PresetRules::parse(files, self.facts.systemd).0
    }

    /// Return names and texts of the future files in a directory. A link in it is a mask, with an empty text.
    fn directory(&self, directory: &str, suffix: &str) -> Vec<(String, String)> {
        let observed = below(&self.facts.unit_texts, directory).map(|(path, _)| path);
        let managed = below(&self.managed.entries, directory).map(|(path, _)| path);
        let paths: BTreeSet<&ManagedPath> = observed.chain(managed).collect();
        let named = paths.into_iter().filter(|path| {
            path.file_name().ends_with(suffix)
                && path.parent().is_some_and(|parent| parent.as_str() == directory)
        });
        let texts = named.filter_map(|path| match self.at(path)? {
            UnitFile::Regular(text) => Some((path.file_name().to_owned(), text)),
            UnitFile::Symlink(_) => Some((path.file_name().to_owned(), String::new())),
        });
        texts.collect()
    }
}

fn below_units(path: &ManagedPath) -> String {
    let below = path.as_str().strip_prefix(UNIT_DIRECTORY).unwrap_or_default();
    below.trim_start_matches('/').to_owned()
}
