//! Live update of the running host: planned, and not applied yet.

use std::collections::BTreeMap;
use std::time::Instant;

use super::new_deployment::deployment_record;
use crate::core::history::HistoryEvent;
use crate::core::plan::{Plan, service_actions};
use crate::core::values::identifiers::GenerationId;
use crate::core::values::names::ManagedPath;
use crate::host::{LockedHost, ServiceControl};
use crate::transaction::TransactionError;
use crate::transaction::engine::apply;
use crate::transaction::engine::apply::JournaledChange;
use crate::transaction::history;
use crate::transaction::plan::deployment_plan::DeploymentPlan;
use crate::transaction::plan::target::{UpdatePurpose, UpdateTarget};
use crate::transaction::state::decided_change::DecidedChange;

/// Update without a reboot.
#[derive(Debug)]
pub struct LiveUpdate<'a> {
    pub(super) draft: Box<DeploymentPlan>,
    pub(super) target: UpdateTarget<'a>,
    /// Labels of the booted deployment's policy for the steps of the plan.
    pub(super) labels: BTreeMap<ManagedPath, String>,
}

/// Live update that is applied.
#[derive(Debug)]
pub struct AppliedUpdate {
    pub plan: Plan,
    /// Generation after the update.
    pub generation: GenerationId,
}

impl LiveUpdate<'_> {
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.draft.plan
    }

    /// Apply the update to the running system, as a journaled change. `host` has been locked since the
    /// update was planned.
    pub fn apply(
        self,
        services: &dyn ServiceControl,
        host: &LockedHost<'_>,
    ) -> Result<AppliedUpdate, TransactionError> {
        let Self { draft, target, labels } = self;
        // During a first boot, the services are not started yet, and a job of a unit ordered after ours would
        // never finish.
        let actions = match target.purpose {
            UpdatePurpose::FirstBoot => Vec::new(),
            _ => service_actions::service_actions_of(&draft.plan.disruption)?,
        };
        let deployed = deployment_record(&draft.base, &draft, None, target);
        let deployed = Some(deployed);
        let decided =
            DecidedChange::of(host, &draft.current, target.desired, draft.plan, deployed, None, &labels)?;
        let change = JournaledChange { actions: &actions, ..decided.change(host.boot_id()) };
        let began = Instant::now();
        apply::apply(host.as_root(), services, change)?;
        let seconds = began.elapsed().as_secs();
        history::note(host, HistoryEvent::Applied, decided.note(target.desired).lasting(seconds));
        let DecidedChange { plan, generation, .. } = decided;
        Ok(AppliedUpdate { plan, generation })
    }
}
