//! Effect of a plan on the disk, path by path: nothing to do, a local file replaced, or drift undone.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::PlanStep;
use crate::core::plan::drift::Drift;
use crate::core::plan::{Plan, TreePlan};
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::DriftKind;

/// Effect of a plan on one path of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum DiskEffect {
    /// The path is as desired already.
    Unchanged,
    /// A file or link that no config manages is replaced. It is kept, and returns when the path is no longer managed.
    ReplacesLocal,
    /// A directory that exists gets another mode or owner. They stay when the path is no longer managed.
    ChangesAttributes,
    /// The path is created, changed or removed.
    Changed,
}

impl TreePlan {
    /// Return the effect of the plan on `path`; `None` for a path that is not looked at in this tree, or that is left as
    /// it is for another reason than that it is as desired.
    #[must_use]
    pub fn effect_on(&self, path: &ManagedPath) -> Option<DiskEffect> {
        let steps = &self.steps.steps;
        let preserves =
            |step: &PlanStep| matches!(step, PlanStep::Preserve { path: kept, .. } if kept == path);
        if !steps.iter().any(|step| step.path() == path) {
            self.unchanged.contains(path).then_some(DiskEffect::Unchanged)
        } else if steps.iter().chain(&self.steps.preserve).any(preserves) {
            Some(DiskEffect::ReplacesLocal)
        } else if steps
            .iter()
            .any(|step| matches!(step, PlanStep::SetAttributes { path: kept, .. } if kept == path))
        {
            Some(DiskEffect::ChangesAttributes)
        } else {
            Some(DiskEffect::Changed)
        }
    }

    /// List the drift that the plan undoes.
    #[must_use]
    pub fn restored(&self) -> Vec<&Drift> {
        // Enablement of a unit is a link of its name.
        let is_touched = |drift: &&Drift| {
            // A boot entry is written anew.
            if drift.kind == DriftKind::KernelArguments {
                return true;
            }
            let name = drift.path.file_name();
            let steps = &mut self.steps.steps.iter();
            steps.any(|step| {
                *step.path() == drift.path
                    || drift.kind == DriftKind::Enablement && step.path().file_name() == name
            })
        };
        self.drift.iter().filter(is_touched).collect()
    }

    /// List the drifted paths whose file or link is replaced, so that its content would be lost. A directory is removed only
    /// if it is empty.
    #[must_use]
    pub fn replaced(&self) -> Vec<&ManagedPath> {
        let is_directory = |step: &&PlanStep| matches!(step, PlanStep::RemoveDirectory { .. });
        let removed = self.steps.steps.iter().filter(is_directory);
        let directories: BTreeSet<&ManagedPath> = removed.map(PlanStep::path).collect();
        let is_replaced = |drift: &&Drift| {
            matches!(
                drift.kind,
                DriftKind::Content | DriftKind::Type | DriftKind::Target | DriftKind::Unexpected
            )
        };
        let replaced = self.restored().into_iter().filter(is_replaced).map(|drift| &drift.path);
        replaced.filter(|path| !directories.contains(path)).collect()
    }
}

impl Plan {
    /// Return true if applying the plan would change the disk, or the record of the applied config.
    #[must_use]
    pub fn changes_host(&self) -> bool {
        // The record names the config.
        let is_renamed = self.current.as_ref() != Some(&self.desired);
        let touches =
            |tree: &TreePlan| is_renamed || !tree.steps.steps.is_empty() || !tree.restored().is_empty();
        self.has_differences() || self.tree.as_ref().is_some_and(touches)
    }
}
