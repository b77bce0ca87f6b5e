//! A change of a tree with all its steps decided, ready to be applied.

use std::collections::BTreeMap;

use super::current::{CurrentState, DecodedConfig};
use super::record;
use crate::core::history::HistoryNote;
use crate::core::plan::Plan;
use crate::core::plan::steps::PlanStep;
use crate::core::state::journal::JournalScope;
use crate::core::state::record::{DeploymentRecord, GenerationRecord};
use crate::core::values::identifiers::{BootId, GenerationId};
use crate::core::values::names::ManagedPath;
use crate::host::LockedRoot;
use crate::transaction::TransactionError;
use crate::transaction::engine::apply::JournaledChange;
use crate::transaction::engine::labels;
use crate::transaction::engine::labels::{GenerationLabels, SelinuxLabels};

/// Plan, record and steps of a change.
#[derive(Debug)]
pub struct DecidedChange {
    pub plan: Plan,
    /// Generation before the change.
    pub current: Option<GenerationId>,
    /// Generation after the change.
    pub generation: GenerationId,
    /// Changes to paths, record and current config included, in order.
    pub steps: Vec<PlanStep>,
    /// SELinux labels of the paths that the steps create.
    pub labels: SelinuxLabels,
}

impl DecidedChange {
    /// Turn `plan` into a change of the tree at `root`. `bound` is the deployment of the tree, `None` for a
    /// plain tree; `named` is the generation in its boot entry, which is kept; `policy` has the labels of the
    /// deployment's policy for the steps of the plan, and is empty without a policy.
    pub(crate) fn of(
        root: &LockedRoot<'_>,
        current: &CurrentState,
        desired: &DecodedConfig,
        plan: Plan,
        deployed: Option<DeploymentRecord>,
        named: Option<&GenerationId>,
        policy: &BTreeMap<ManagedPath, String>,
    ) -> Result<Self, TransactionError> {
        let tree = plan.tree.clone().unwrap_or_default();
        let given = current.given_labels();
        let mut chosen = given.clone();
        chosen.extend(policy.clone());
        let of_tree = labels::labels_of_steps(root.as_root(), &tree.steps.steps, &chosen)?;
        let recorded = labels::recorded_labels(&given, &tree.steps.steps, &of_tree);
        let recorded = if policy.is_empty() && current.outside_labels.all.is_empty() {
            GenerationLabels { record: recorded, ..GenerationLabels::default() }
        } else {
            GenerationLabels::divided(recorded)
        };
        let in_manifest = recorded.manifest.clone();
        let record = record::compose_record(current, desired, &plan, recorded, deployed, root.boot_id());
        let generation = named.unwrap_or(&record.generation).clone();
        let record = GenerationRecord { generation, ..record };
        let steps = record::tree_change_steps(root, current, tree, desired, &record, &in_manifest)?;
        let labels = labels::labels_of_steps(root.as_root(), &steps, &chosen)?;
        let current = current.record.as_ref().map(|record| record.generation.clone());
        Ok(Self { plan, current, generation: record.generation, steps, labels })
    }

    /// Describe the change in the history.
    #[must_use]
    pub fn note(&self, desired: &DecodedConfig) -> HistoryNote {
        let steps = self.plan.tree.iter().flat_map(|tree| &tree.steps.steps);
        let paths = steps.filter(|step| !step.is_of_directory()).map(PlanStep::path);
        let note = HistoryNote::of_config(&desired.object.name, &self.generation);
        note.after(self.current.as_ref()).with_paths(paths)
    }

    /// Wrap the change for the journal. It contains no service actions.
    #[must_use]
    pub fn change<'a>(&'a self, boot_id: &'a BootId) -> JournaledChange<'a> {
        JournaledChange {
            current: self.current.as_ref(),
            target: Some(&self.generation),
            boot_id,
            scope: JournalScope::Deployment,
            steps: &self.steps,
            labels: &self.labels,
            actions: &[],
        }
    }
}
