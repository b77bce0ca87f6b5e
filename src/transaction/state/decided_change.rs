//! A change to a tree, decided in every step: what is left is to carry it out.

use crate::core::plan::Plan;
use crate::core::plan::steps::PlanStep;
use crate::core::state::journal::JournalScope;
use crate::core::state::record::{DeploymentRecord, GenerationRecord};
use crate::host::Root;

use super::current::{CurrentState, DecodedConfig};
use super::record;
use crate::transaction::TransactionError;
use crate::transaction::engine::apply::JournaledChange;
use crate::transaction::engine::labels;
use crate::transaction::engine::labels::SelinuxLabels;

/// A change that is decided, and not begun.
#[derive(Debug)]
pub struct DecidedChange {
    /// What it does, and why.
    pub plan: Plan,
    /// The generation that the tree is.
    pub current: Option<String>,
    /// The generation that it becomes.
    pub generation: String,
    /// The acts on paths, the record's and the configuration's included.
    pub steps: Vec<PlanStep>,
    /// The labels of what they make.
    pub labels: SelinuxLabels,
}

impl DecidedChange {
    /// Carries `plan` out on the tree at `root`: on its own, or in the deployment `bound`, whose boot entry may name a
    /// generation already.
    pub(crate) fn of(
        root: &Root,
        current: &CurrentState,
        desired: &DecodedConfig,
        plan: Plan,
        bound: Option<DeploymentRecord>,
        named: Option<&str>,
    ) -> Result<Self, TransactionError> {
        let tree = plan.tree.clone().unwrap_or_default();
        let given = current.remembered().labels;
        let of_tree = labels::labels_of_steps(root, &tree.steps.steps, &given)?;
        let recorded = labels::recorded_labels(&given, &tree.steps.steps, &of_tree);
        let record = record::compose_record(current, desired, &plan, recorded, bound);
        let generation = named.map_or_else(|| record.generation.clone(), str::to_owned);
        let record = GenerationRecord { generation, ..record };
        let steps = record::tree_change_steps(root, current, tree, desired, &record)?;
        let labels = labels::labels_of_steps(root, &steps, &given)?;
        let current = current.record.as_ref().map(|record| record.generation.clone());
        Ok(Self { plan, current, generation: record.generation, steps, labels })
    }

    /// The change as the engine takes it.
    #[must_use]
    pub fn change<'a>(&'a self, boot_id: &'a str) -> JournaledChange<'a> {
        JournaledChange {
            current: self.current.as_deref(),
            target: Some(&self.generation),
            boot_id,
            scope: JournalScope::Deployment,
            steps: &self.steps,
            labels: &self.labels,
            actions: &[],
        }
    }
}
