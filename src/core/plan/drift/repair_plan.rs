//! Drift repair: the steps of a plan that repair the selected drifted paths, and the obstacles for all
//! others. The plan leads from the current config to itself, so that its only differences are drift.

use std::collections::{BTreeMap, BTreeSet};

use super::Drift;
use crate::core::plan::TreePlan;
use crate::core::plan::steps::PlanStep;
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::DriftKind;

/// Repair of the selected drift.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepairPlan {
    /// Steps, in the plan's order.
    pub steps: Vec<PlanStep>,
    /// Parent directories that the steps create.
    pub created_directories: BTreeSet<ManagedPath>,
    /// Paths that cannot be repaired, with reasons.
    pub obstacles: BTreeMap<ManagedPath, String>,
}

/// Select from `tree` the steps that repair the drift at the `chosen` paths. Beyond these paths they only
/// create missing parent directories, and renew the hard links to files that they write.
#[must_use]
pub fn plan_repair(tree: &TreePlan, chosen: &BTreeSet<ManagedPath>) -> RepairPlan {
    let choosing = Choosing::new(tree, chosen);
    let (mut repaired, mut obstacles) = (BTreeSet::new(), BTreeMap::new());
    for drift in tree.drift.iter().filter(|drift| chosen.contains(&drift.path)) {
        match choosing.obstacle(drift) {
            Some(reason) => drop(obstacles.insert(drift.path.clone(), reason)),
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
    RepairPlan { created_directories: created.cloned().collect(), steps, obstacles }
}

struct Choosing<'a> {
    tree: &'a TreePlan,
    chosen: &'a BTreeSet<ManagedPath>,
    drift: BTreeMap<&'a ManagedPath, DriftKind>,
    /// Paths that a step changes.
    changed: BTreeSet<&'a ManagedPath>,
    /// Directories that replace another node, such as a file.
    replacing: BTreeSet<&'a ManagedPath>,
    /// Hard links that a step creates, with the paths of their files.
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

    /// Return the reason why a path cannot be repaired.
    fn obstacle(&self, drift: &Drift) -> Option<String> {
        let path = &drift.path;
        self.in_the_way(path).or_else(|| self.nameless(path)).or_else(|| self.untouched(drift))
    }

    /// Return the reason if the path or a parent of it is obstructed.
    fn in_the_way(&self, path: &ManagedPath) -> Option<String> {
        let obstructions = &self.tree.steps.obstructions;
        let obstruction = obstructions.iter().find(|found| path.is_within(found.path.as_str()));
        let above = || {
            let stays = |above: &ManagedPath| self.replacing.contains(above) && !self.chosen.contains(above);
            path.ancestors().find(stays)
        };
        match obstruction {
            Some(obstruction) => Some(obstruction.reason.clone()),
            None => above()
                .map(|above| format!("{above} must become a directory again first, but is not repaired")),
        }
    }

    /// Return the reason if the path is a hard link to a file that is missing and stays so.
    fn nameless(&self, path: &ManagedPath) -> Option<String> {
        let file = self.names.get(path)?;
        let is_gone = matches!(self.drift.get(file), Some(DriftKind::Missing | DriftKind::Type));
        let comes_back = self.chosen.contains(*file) && self.in_the_way(file).is_none();
        (is_gone && !comes_back).then(|| format!("it is a hard link to {file}, which is not repaired"))
    }

    /// Return the reason if the plan has no step for the path.
    fn untouched(&self, drift: &Drift) -> Option<String> {
        if self.changed.contains(&drift.path) {
            return None;
        }
        let reason = match drift.kind {
            DriftKind::Xattrs | DriftKind::Label => {
                "extended attributes and labels are repaired only on files and links that are written again; set them by hand"
            }
            DriftKind::Password => "the shadow file has no entry for the user; add one",
            _ => "applying the config again would not change it either; see `flameholder plan`",
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
            // Empty directories, removed where a file is needed.
            PlanStep::RemoveDirectory { path } => {
                is_repaired(path) || path.ancestors().any(|above| is_repaired(&above))
            }
            // Hard links to a file that is written again have to be created again too.
            PlanStep::HardLink { path, target } => {
                let is_its_name = self.drift.get(path).is_none_or(|kind| *kind == DriftKind::Label);
                is_repaired(path) || is_repaired(target) && is_its_name
            }
            // A repair neither adds paths to the managed ones nor removes any.
            PlanStep::Preserve { .. } | PlanStep::Restore { .. } => false,
            step => is_repaired(step.path()),
        }
    }
}

#[cfg(test)]
mod tests;
