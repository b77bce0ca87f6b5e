//! Which steps of a plan make good the deviations that shall be repaired, and what keeps the others
//! from it. The plan goes from the applied configuration to the same one.

use std::collections::{BTreeMap, BTreeSet};

use super::steps::PlanStep;
use super::{Drift, TreePlan};
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::DriftKind;

/// What can be repaired, and what not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepairPlan {
    /// The steps, in the plan's order.
    pub steps: Vec<PlanStep>,
    /// Directories that they make on the way to something.
    pub created_directories: BTreeSet<ManagedPath>,
    /// Why a path stays as it is.
    pub hindered: BTreeMap<ManagedPath, String>,
}

/// Chooses from `tree` what repairs the drift at the `chosen` paths, and nothing else: with the
/// directories that are missing above them, and with the other names of files that are made anew.
#[must_use]
pub fn choose(tree: &TreePlan, chosen: &BTreeSet<ManagedPath>) -> RepairPlan {
    let choosing = Choosing::new(tree, chosen);
    let (mut repaired, mut hindered) = (BTreeSet::new(), BTreeMap::new());
    for drift in tree.drift.iter().filter(|drift| chosen.contains(&drift.path)) {
        match choosing.hindrance(drift) {
            Some(reason) => drop(hindered.insert(drift.path.clone(), reason)),
            None => drop(repaired.insert(&drift.path)),
        }
    }
    let above: BTreeSet<ManagedPath> = repaired.iter().flat_map(|path| path.ancestors()).collect();
    let serving = tree.steps.steps.iter().filter(|step| choosing.serves(step, &repaired, &above));
    let steps: Vec<PlanStep> = serving.cloned().collect();
    let made: BTreeSet<&ManagedPath> = steps
        .iter()
        .filter(|step| matches!(step, PlanStep::MakeDirectory { .. }))
        .map(PlanStep::path)
        .collect();
    let created = tree.steps.created_directories.iter().filter(|path| made.contains(path));
    RepairPlan { created_directories: created.cloned().collect(), steps, hindered }
}

struct Choosing<'a> {
    tree: &'a TreePlan,
    chosen: &'a BTreeSet<ManagedPath>,
    drift: BTreeMap<&'a ManagedPath, DriftKind>,
    /// Paths that a step changes.
    changed: BTreeSet<&'a ManagedPath>,
    /// Directories that take the place of something else.
    replacing: BTreeSet<&'a ManagedPath>,
    /// Hard links that are made, with their files.
    names: BTreeMap<&'a ManagedPath, &'a ManagedPath>,
}

impl<'a> Choosing<'a> {
    fn new(tree: &'a TreePlan, chosen: &'a BTreeSet<ManagedPath>) -> Self {
        let steps = || tree.steps.steps.iter();
        let removed: BTreeSet<&ManagedPath> =
            steps().filter(|step| matches!(step, PlanStep::Remove { .. })).map(PlanStep::path).collect();
        let made = steps().filter(|step| matches!(step, PlanStep::MakeDirectory { .. })).map(PlanStep::path);
        let names = steps().filter_map(|step| match step {
            PlanStep::HardLink { path, target } => Some((path, target)),
            _ => None,
        });
        Self {
            tree,
            chosen,
            drift: tree.drift.iter().map(|drift| (&drift.path, drift.kind)).collect(),
            changed: steps().map(PlanStep::path).collect(),
            replacing: made.filter(|path| removed.contains(path)).collect(),
            names: names.collect(),
        }
    }

    /// What keeps a path from being repaired.
    fn hindrance(&self, drift: &Drift) -> Option<String> {
        let path = &drift.path;
        self.in_the_way(path).or_else(|| self.nameless(path)).or_else(|| self.untouched(drift))
    }

    /// What stands there, or above it, and may not go.
    fn in_the_way(&self, path: &ManagedPath) -> Option<String> {
        let obstructions = &self.tree.steps.obstructions;
        let obstruction = obstructions.iter().find(|found| path.is_within(found.path.as_str()));
        let above = || {
            let stays = |above: &ManagedPath| self.replacing.contains(above) && !self.chosen.contains(above);
            path.ancestors().find(stays)
        };
        match obstruction {
            Some(obstruction) => Some(obstruction.reason.clone()),
            None => above().map(|above| {
                format!("{above} has to become a directory again first, and its policy is not `repair`")
            }),
        }
    }

    /// A second name has to wait for its file.
    fn nameless(&self, path: &ManagedPath) -> Option<String> {
        let file = self.names.get(path)?;
        let is_gone = matches!(self.drift.get(file), Some(DriftKind::Missing | DriftKind::Type));
        let comes_back = self.chosen.contains(*file) && self.in_the_way(file).is_none();
        (is_gone && !comes_back).then(|| format!("it is another name of {file}, which is not repaired"))
    }

    /// Nothing is planned there.
    fn untouched(&self, drift: &Drift) -> Option<String> {
        if self.changed.contains(&drift.path) {
            return None;
        }
        let reason = match drift.kind {
            DriftKind::Xattrs | DriftKind::Label => {
                "only what is made anew gets new extended attributes and labels, and this is not: set them by hand"
            }
            DriftKind::Password => "the tree has no user of that name in its shadow file: add it",
            _ => "applying the configuration again would not change it either: see `flameholder plan`",
        };
        Some(reason.to_owned())
    }

    fn serves(
        &self,
        step: &PlanStep,
        repaired: &BTreeSet<&ManagedPath>,
        above: &BTreeSet<ManagedPath>,
    ) -> bool {
        let is_repaired = |path: &ManagedPath| repaired.contains(path);
        match step {
            PlanStep::MakeDirectory { path, .. } => {
                is_repaired(path) || above.contains(path) && !self.replacing.contains(path)
            }
            // Empty ones, where a file is needed.
            PlanStep::RemoveDirectory { path } => {
                is_repaired(path) || path.ancestors().any(|above| is_repaired(&above))
            }
            // A file that is made anew takes its other names along.
            PlanStep::HardLink { path, target } => {
                let is_its_name = self.drift.get(path).is_none_or(|kind| *kind == DriftKind::Label);
                is_repaired(path) || is_repaired(target) && is_its_name
            }
            // Nothing comes under management, and nothing leaves it.
            PlanStep::Preserve { .. } | PlanStep::Restore { .. } => false,
            step => is_repaired(step.path()),
        }
    }
}

#[cfg(test)]
mod tests;
