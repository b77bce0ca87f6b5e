//! Changes beside the config: journaled like all others, under the generation that is current.

use crate::core::plan::steps::PlanStep;
use crate::core::state::journal::JournalScope;
use crate::core::state::service_action::ServiceAction;
use crate::host::{LockedRoot, ServiceControl};
use crate::transaction::TransactionError;
use crate::transaction::engine::apply::JournaledChange;
use crate::transaction::engine::{apply, labels};
use crate::transaction::state::current::CurrentState;

/// Carry out steps as one journaled change, which leaves the generation as it is.
pub(super) fn carry_out(
    root: &LockedRoot<'_>,
    services: &dyn ServiceControl,
    current: &CurrentState,
    steps: &[PlanStep],
    actions: &[ServiceAction],
) -> Result<(), TransactionError> {
    let labels = labels::labels_of_steps(root.as_root(), steps, &current.given_labels())?;
    let generation = current.record.as_ref().map(|record| &record.generation);
    let change = JournaledChange {
        current: generation,
        target: generation,
        boot_id: root.boot_id(),
        scope: JournalScope::Deployment,
        steps,
        labels: &labels,
        actions,
    };
    Ok(apply::apply(root.as_root(), services, change)?)
}
