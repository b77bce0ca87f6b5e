//! Computation of steps from desired config and observed tree. The order (new content, changed content,
//! drop-ins, links, removals) keeps every reference between files valid at each instant.

pub mod disk_effect;
mod inputs;
mod preparation;
mod step;
mod unmanaged;

use std::collections::{BTreeMap, BTreeSet};

pub use inputs::{LinkChange, PathObstruction, PlannedSteps, PriorChanges, StepInputs, VendorEntry};
pub use step::PlanStep;

use crate::core::config::host_config::UNIT_DIRECTORY;
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::{DriftKind, FileAttributes, FileEntry, PathState};

/// Phases of a change, in the order in which they are carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Preserve,
    Clear,
    Directories,
    NewContent,
    ChangedContent,
    DropIns,
    Links,
    Removals,
    /// Pre-images put back where a directory had to be removed first.
    Returns,
}

/// Compute the steps for all managed paths.
#[must_use]
pub fn compute(situation: StepInputs<'_>) -> PlannedSteps {
    let mut computing = Computing {
        situation,
        phases: BTreeMap::new(),
        result: PlannedSteps::default(),
        leaving: BTreeSet::new(),
        made: BTreeSet::new(),
        cleared: BTreeSet::new(),
        returned: BTreeSet::new(),
    };
    computing.result.originals.clone_from(&situation.prior.originals);
    computing.result.created_directories.clone_from(&situation.prior.created_directories);
    let leaving = situation.current.entries.keys().filter(|path| computing.is_leaving(path));
    computing.leaving = leaving.cloned().collect();
    for (path, entry) in &situation.desired.entries {
        computing.plan_entry(path, entry);
    }
    computing.enable();
    computing.restore_originals();
    for path in computing.leaving.clone() {
        computing.unmanage(&path);
    }
    computing.forget_directories();
    computing.finish()
}

struct Computing<'a> {
    situation: StepInputs<'a>,
    phases: BTreeMap<Phase, Vec<PlanStep>>,
    result: PlannedSteps,
    /// Paths that the current config manages, and the desired one does not.
    leaving: BTreeSet<ManagedPath>,
    /// Directories that a step creates.
    made: BTreeSet<ManagedPath>,
    /// Paths that a step removes first, to make room.
    cleared: BTreeSet<ManagedPath>,
    /// Paths that get their pre-image back.
    returned: BTreeSet<ManagedPath>,
}

impl Computing<'_> {
    fn push(&mut self, phase: Phase, step: PlanStep) {
        self.phases.entry(phase).or_default().push(step);
    }

    /// Return the state of `path` once all obstacles above it are removed.
    fn node(&self, path: &ManagedPath) -> PathState {
        if !self.cleared.is_empty() && path.ancestors().any(|above| self.cleared.contains(&above)) {
            return PathState::Absent;
        }
        self.situation.observed.get(path).cloned().unwrap_or(PathState::Absent)
    }

    fn obstruct(&mut self, path: &ManagedPath, reason: String) {
        self.result.obstructions.push(PathObstruction { path: path.clone(), reason });
    }

    fn is_leaving(&self, path: &ManagedPath) -> bool {
        let StepInputs { current, desired, profile, .. } = self.situation;
        // The desired config unmasks the unit, but a unit file of the current config would still be removed.
        let is_free = match desired.entries.get(path) {
            None => true,
            Some(FileEntry::Unmasked) => current.entries.get(path).is_some_and(FileEntry::is_leaf),
            Some(_) => false,
        };
        is_free && !profile.never_deletes(path) && !self.is_desired_under_alias(path)
    }

    /// Return true if the desired config lists another path that leads to the same place.
    fn is_desired_under_alias(&self, path: &ManagedPath) -> bool {
        let StepInputs { aliases, desired, .. } = self.situation;
        let first = aliases.get(path).unwrap_or(path);
        let same = |other: &ManagedPath| other != path && aliases.get(other).unwrap_or(other) == first;
        (aliases.contains_key(path) || aliases.values().any(|named| named == path))
            && desired.entries.keys().any(same)
    }

    fn plan_entry(&mut self, path: &ManagedPath, entry: &FileEntry) {
        let node = self.node(path);
        if let Some((at, reason)) = self.unusable_path(path, &node) {
            return self.obstruct(&at, reason);
        }
        let is_unchanged = self.situation.current.entries.get(path) == Some(entry);
        if is_unchanged
            && self.situation.profile.keeps_local_content(path)
            && matches!(node, PathState::File { .. })
        {
            return;
        }
        let is_new = !self.situation.current.entries.contains_key(path);
        let was_masked =
            *entry != FileEntry::Unmasked || entry.drift(&node, self.situation.observed).is_some();
        if is_new && node.exists() && !matches!(entry, FileEntry::Directory { .. }) && was_masked {
            self.preserve(path, &node);
        }
        if entry.is_leaf() || matches!(entry, FileEntry::Directory { .. }) {
            self.make_parents(path);
        }
        if !self.needs_step(path, entry, &node) && !self.is_stale_link(entry) {
            return;
        }
        if let PathState::Directory { .. } = node
            && !matches!(entry, FileEntry::Directory { .. })
            && !self.clear_directory(path)
        {
            return;
        }
        if node == PathState::Other {
            return self.obstruct(
                path,
                format!("{path} is {}, which cannot be replaced; move it away", node.describe()),
            );
        }
        self.push_entry(path, entry, &node);
    }

    /// Return the path that keeps `path` from being written, with the reason.
    fn unusable_path(&self, path: &ManagedPath, node: &PathState) -> Option<(ManagedPath, String)> {
        if let Some(first) = self.situation.aliases.get(path)
            && self.situation.desired.entries.contains_key(first)
        {
            let reason = format!(
                "{path} and {first} are the same path, reached through a symbolic link; list it once"
            );
            return Some((path.clone(), reason));
        }
        if *node != PathState::Unreachable {
            return None;
        }
        let links = path.ancestors().filter(|above| matches!(self.node(above), PathState::Symlink { .. }));
        let untrusted = links.filter_map(|link| Some((link.clone(), self.untrusted_reason(&link, path)?)));
        untrusted.last().or_else(|| {
            let reason = format!(
                "a parent directory of {path} is a symbolic link that dangles or leaves the root; replace it with \
                 a directory, or with a link that stays inside the root"
            );
            Some((path.clone(), reason))
        })
    }

    fn push_entry(&mut self, path: &ManagedPath, entry: &FileEntry, node: &PathState) {
        let content = if node.exists() { Phase::ChangedContent } else { Phase::NewContent };
        let in_units = path.is_within(UNIT_DIRECTORY);
        let drop_in = in_units && path.parent().is_some_and(|parent| parent.as_str() != UNIT_DIRECTORY);
        let content = if drop_in { Phase::DropIns } else { content };
        let path = path.clone();
        match entry.clone() {
            FileEntry::File { contents, attributes } => {
                self.push(content, PlanStep::Write { path, contents, attributes });
            }
            FileEntry::Symlink { target, owner } => {
                self.push(Phase::Links, PlanStep::Symlink { path, target, owner });
            }
            FileEntry::HardLink { target } => self.plan_hard_link(path, target),
            FileEntry::Directory { attributes } => self.plan_directory(path, attributes, node),
            FileEntry::Absent | FileEntry::AbsentOrEmpty { .. } | FileEntry::Unmasked => {
                self.push(Phase::Removals, PlanStep::Remove { path });
            }
        }
    }

    fn plan_hard_link(&mut self, path: ManagedPath, target: ManagedPath) {
        let is_written = matches!(self.situation.desired.entries.get(&target), Some(FileEntry::File { .. }));
        if is_written || matches!(self.node(&target), PathState::File { .. }) {
            return self.push(Phase::Links, PlanStep::HardLink { path, target });
        }
        let found = self.node(&target).describe();
        self.obstruct(
            &path,
            format!("{path} must be a hard link to {target}, but found {found} there; a file is needed"),
        );
    }

    /// Return true if a hard link must be created again, because its file is replaced (files are never
    /// rewritten in place).
    fn is_stale_link(&self, entry: &FileEntry) -> bool {
        let FileEntry::HardLink { target } = entry else { return false };
        let wanted = self.situation.desired.entries.get(target);
        wanted.is_some_and(|file| self.needs_step(target, file, &self.node(target)))
    }

    /// Return true if a step is needed to make the node at `path` match `entry`. A file or link is written
    /// again, which resets its extended attributes and label; a directory keeps both.
    fn needs_step(&self, path: &ManagedPath, entry: &FileEntry, node: &PathState) -> bool {
        match entry.drift(node, self.situation.observed) {
            Some(DriftKind::Xattrs) => entry.is_leaf(),
            Some(_) => true,
            None => {
                let recorded = self.situation.prior.labels.get(path);
                let made_anew = matches!(entry, FileEntry::File { .. } | FileEntry::Symlink { .. });
                made_anew && recorded.is_some_and(|label| node.is_mislabelled(label))
            }
        }
    }

    fn enable(&mut self) {
        let links = self.situation.links;
        for (path, target) in links.made() {
            if matches!(
                self.node(path),
                PathState::File { .. } | PathState::Directory { .. } | PathState::Other
            ) {
                let found = self.node(path).describe();
                self.obstruct(
                    path,
                    format!(
                        "{path} is {found}, but enabling a unit needs a symbolic link there; move it away"
                    ),
                );
                continue;
            }
            self.make_parents(path);
            let (path, target) = (path.clone(), target.clone());
            self.push(Phase::Links, PlanStep::Symlink { path, target, owner: (0, 0) });
        }
        for path in links.removed() {
            self.push(Phase::Removals, PlanStep::Remove { path: path.clone() });
        }
    }

    fn plan_directory(&mut self, path: ManagedPath, attributes: FileAttributes, node: &PathState) {
        match node {
            PathState::Directory { .. } => {
                self.push(Phase::Directories, PlanStep::SetAttributes { path, attributes });
            }
            PathState::Absent => {
                self.result.created_directories.insert(path.clone());
                self.push(Phase::Directories, PlanStep::MakeDirectory { path, attributes });
            }
            _ if self.leaving.contains(&path) || self.situation.current.entries.contains_key(&path) => {
                self.cleared.insert(path.clone());
                self.push(Phase::Clear, PlanStep::Remove { path: path.clone() });
                self.push(Phase::Directories, PlanStep::MakeDirectory { path, attributes });
            }
            found => {
                let reason = format!("{path} is {}, but must be a directory; move it away", found.describe());
                self.obstruct(&path, reason);
            }
        }
    }

    fn finish(mut self) -> PlannedSteps {
        // Directories are removed after all files, the deepest first.
        if let Some(removals) = self.phases.get_mut(&Phase::Removals) {
            let (mut directories, leaves): (Vec<PlanStep>, Vec<PlanStep>) = std::mem::take(removals)
                .into_iter()
                .partition(|step| matches!(step, PlanStep::RemoveDirectory { .. }));
            directories.sort_by(|a, b| b.path().cmp(a.path()));
            directories.dedup();
            removals.extend(leaves);
            removals.extend(directories);
        }
        self.result.preserve = self.phases.remove(&Phase::Preserve).unwrap_or_default();
        self.result.steps = self.phases.into_values().flatten().collect();
        self.result
    }
}
