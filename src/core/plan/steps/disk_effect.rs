//! Effect of a plan on the disk, path by path: what is so already, what replaces a local file, which drift is undone.

use schemars::JsonSchema;
use serde::Serialize;

use super::PlanStep;
use crate::core::plan::{Drift, Plan, TreePlan};
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
    /// The path is created, changed or removed.
    Changed,
}

impl TreePlan {
    /// Return the effect of the plan on `path`.
    #[must_use]
    pub fn effect_on(&self, path: &ManagedPath) -> DiskEffect {
        let steps = &self.steps.steps;
        let preserves =
            |step: &PlanStep| matches!(step, PlanStep::Preserve { path: kept, .. } if kept == path);
        if !steps.iter().any(|step| step.path() == path) {
            DiskEffect::Unchanged
        } else if steps.iter().chain(&self.steps.preserve).any(preserves) {
            DiskEffect::ReplacesLocal
        } else {
            DiskEffect::Changed
        }
    }

    /// List the drift that the plan undoes.
    #[must_use]
    pub fn restored(&self) -> Vec<&Drift> {
        // Enablement of a unit is a link of its name.
        let is_touched = |drift: &&Drift| {
            let name = drift.path.file_name();
            let steps = &mut self.steps.steps.iter();
            steps.any(|step| {
                *step.path() == drift.path
                    || drift.kind == DriftKind::Enablement && step.path().file_name() == name
            })
        };
        self.drift.iter().filter(is_touched).collect()
    }

    /// List the drifted paths whose file or link is replaced, so that its content would be lost.
    #[must_use]
    pub fn replaced(&self) -> Vec<&ManagedPath> {
        let is_replaced = |drift: &&Drift| {
            matches!(
                drift.kind,
                DriftKind::Content | DriftKind::Type | DriftKind::Target | DriftKind::Unexpected
            )
        };
        self.restored().into_iter().filter(is_replaced).map(|drift| &drift.path).collect()
    }
}

impl Plan {
    /// Return true if applying the plan would change the disk, or the record of what is applied.
    #[must_use]
    pub fn changes_host(&self) -> bool {
        self.has_differences() || self.tree.as_ref().is_some_and(|tree| !tree.steps.steps.is_empty())
    }
}
