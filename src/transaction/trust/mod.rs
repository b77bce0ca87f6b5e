//! Trust material on the running host: observed, planned, and applied in a live transaction of its own, whatever
//! becomes of updates.

pub mod error;
mod facts;
pub mod kubelet_restart;

use crate::core::config::managed_files;
use crate::core::plan::steps::PlanStep;
use crate::core::state::journal::JournalScope;
use crate::core::state::service_action::ServiceAction;
use crate::core::trust::document::TrustDocument;
use crate::core::trust::material::TrustMaterial;
use crate::core::trust::trust_plan;
use crate::core::trust::trust_plan::KubeletRestart;
use crate::core::values::names::ManagedPath;
use crate::core::values::profile::Profile;
use crate::host::{LockedRoot, ServiceControl};
use crate::transaction::TransactionError;
use crate::transaction::engine::apply::JournaledChange;
use crate::transaction::engine::{apply, labels};
use crate::transaction::state::current::CurrentState;
use crate::transaction::state::interrupted::recover_first;
use crate::transaction::trust::error::TrustMaterialError;

/// Trust material that is applied.
#[derive(Debug)]
pub struct AppliedTrust {
    /// Written and removed files, in the order of the changes.
    pub changed: Vec<ManagedPath>,
    /// Parts that are left out, each with the reason.
    pub left_out: Vec<String>,
    /// Restart of the kubelet; one that is due now has happened.
    pub kubelet: KubeletRestart,
}

/// Bring trust material to the disk. Nothing is written when nothing changed.
///
/// A new CA of the API server is a change of its own, with the kubelet's restart in it: where the kubelet does not
/// start with the new CA, it gets the old one back. The other files are applied before, and stay.
pub fn apply(
    root: &LockedRoot<'_>,
    services: &dyn ServiceControl,
    document: &TrustDocument,
    profile: Profile,
) -> Result<AppliedTrust, TransactionError> {
    recover_first(root)?;
    let material = TrustMaterial::decode(document).map_err(TrustMaterialError::Refused)?;
    let current = CurrentState::load(root)?;
    let mut facts = facts::observe(root.as_root(), &material)?;
    let managed = current.host().map(managed_files::written_paths).unwrap_or_default();
    facts.managed = managed.into_iter().filter(|path| !profile.keeps_local_content(path)).collect();

    let files = trust_plan::plan_files(&material, &facts).map_err(TrustMaterialError::Obstructed)?;
    carry_out(root, services, &current, &files.steps, &[])?;
    let rotation =
        trust_plan::plan_rotation(&material.server_ca, &facts).map_err(TrustMaterialError::Obstructed);
    let (rotation, kubelet) = rotation?;
    let restart = [kubelet_restart::action()];
    let actions: &[ServiceAction] = if kubelet == KubeletRestart::Now { &restart } else { &[] };
    if kubelet == KubeletRestart::Deferred {
        // Before the kubeconfig changes: a restart too many does no harm, one that is forgotten does.
        kubelet_restart::defer(root.as_root())?;
    }
    carry_out(root, services, &current, &rotation.steps, actions)?;
    if kubelet == KubeletRestart::Now {
        kubelet_restart::forget(root.as_root())?;
    }
    let is_directory =
        |step: &&PlanStep| matches!(step, PlanStep::MakeDirectory { .. } | PlanStep::RemoveDirectory { .. });
    let steps = files.steps.iter().chain(&rotation.steps).filter(|step| !is_directory(step));
    Ok(AppliedTrust {
        changed: steps.map(|step| step.path().clone()).collect(),
        left_out: [files.left_out, rotation.left_out].concat(),
        kubelet,
    })
}

/// Carry out steps as one journaled change, which leaves the generation as it is.
fn carry_out(
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
