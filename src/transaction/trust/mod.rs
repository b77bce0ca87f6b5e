//! Trust material on the running host: observed, planned, and applied in a live transaction of its own, whatever
//! becomes of updates.

pub mod error;
mod facts;
pub mod kubelet_restart;

use std::collections::BTreeSet;

use crate::core::config::managed_files;
use crate::core::history::{HistoryEvent, HistoryNote};
use crate::core::plan::steps::PlanStep;
use crate::core::state::service_action::ServiceAction;
use crate::core::trust::document::TrustDocument;
use crate::core::trust::material::TrustMaterial;
use crate::core::trust::trust_plan;
use crate::core::trust::trust_plan::{KubeletRestart, TrustFacts, TrustPlan};
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::{KUBECONFIG, KUBELET_KUBECONFIG};
use crate::core::values::profile::Profile;
use crate::host::{LockedRoot, ServiceControl};
use crate::transaction::state::current::CurrentState;
use crate::transaction::state::interrupted::recover_first;
use crate::transaction::trust::error::TrustMaterialError;
use crate::transaction::{TransactionError, history, side_change};

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
/// These are up to three changes, so that none is kept back by an obstacle of another: the files with fixed paths, the
/// certificates of registries, and a new CA of the API server with the kubelet's restart in it: where the kubelet does
/// not start with the new CA, it gets the old one back. Returns the first error once all were tried.
pub fn apply(
    root: &LockedRoot<'_>,
    services: &dyn ServiceControl,
    document: &TrustDocument,
    profile: Profile,
) -> Result<AppliedTrust, TransactionError> {
    recover_first(root)?;
    let material = TrustMaterial::decode(document).map_err(TrustMaterialError::Refused)?;
    let current = CurrentState::load(root)?;
    let managed = current.host().map(managed_files::written_paths).unwrap_or_default();
    let managed = managed.into_iter().filter(|path| !profile.keeps_local_content(path)).collect();
    let change = TrustChange { root, services, current, managed };
    let files = change.files(&material);
    let registries = change.registries(&material);
    let rotation = change.rotation(&material);
    let (mut changed, mut left_out) = (Vec::new(), Vec::new());
    let (files, registries, (rotation, kubelet)) = (files?, registries?, rotation?);
    for plan in [files, registries, rotation] {
        let files = plan.steps.iter().filter(|step| !step.is_of_directory());
        changed.extend(files.map(|step| step.path().clone()));
        left_out.extend(plan.left_out);
    }
    if !changed.is_empty() {
        history::note(root, HistoryEvent::TrustApplied, HistoryNote::default().with_paths(&changed));
    }
    Ok(AppliedTrust { changed, left_out, kubelet })
}

/// Change of a host's trust material, in parts.
struct TrustChange<'a> {
    root: &'a LockedRoot<'a>,
    services: &'a dyn ServiceControl,
    current: CurrentState,
    /// Paths whose contents the current config decides.
    managed: BTreeSet<ManagedPath>,
}

impl TrustChange<'_> {
    fn files(&self, material: &TrustMaterial) -> Result<TrustPlan, TransactionError> {
        let paths = material.files.keys().cloned().collect();
        let plan = self.plan(&paths, |facts| trust_plan::plan_files(material, facts))?;
        self.carry_out(&plan.steps, &[])?;
        Ok(plan)
    }

    fn registries(&self, material: &TrustMaterial) -> Result<TrustPlan, TransactionError> {
        let paths = facts::registry_paths(self.root.as_root(), material)?;
        let plan = self.plan(&paths, |facts| trust_plan::plan_registries(material, facts))?;
        self.carry_out(&plan.steps, &[])?;
        Ok(plan)
    }

    fn rotation(&self, material: &TrustMaterial) -> Result<(TrustPlan, KubeletRestart), TransactionError> {
        let paths = [KUBECONFIG, KUBELET_KUBECONFIG].map(ManagedPath::constant).into();
        let (plan, kubelet) =
            self.plan(&paths, |facts| trust_plan::plan_rotation(&material.server_ca, facts))?;
        let root = self.root.as_root();
        match kubelet {
            KubeletRestart::Unneeded => self.carry_out(&plan.steps, &[])?,
            KubeletRestart::Now => {
                self.carry_out(&plan.steps, &[kubelet_restart::action()])?;
                kubelet_restart::forget(root)?;
            }
            KubeletRestart::Deferred => {
                // Before the kubeconfig changes: a restart too many does no harm, one that is forgotten does.
                kubelet_restart::defer(root)?;
                self.carry_out(&plan.steps, &[])?;
            }
        }
        Ok((plan, kubelet))
    }

    /// Observe these paths and plan their change.
    fn plan<T>(
        &self,
        paths: &BTreeSet<ManagedPath>,
        plan: impl FnOnce(&TrustFacts) -> Result<T, Vec<String>>,
    ) -> Result<T, TransactionError> {
        let facts = facts::observe(self.root.as_root(), paths, &self.managed)?;
        Ok(plan(&facts).map_err(TrustMaterialError::Obstructed)?)
    }

    fn carry_out(&self, steps: &[PlanStep], actions: &[ServiceAction]) -> Result<(), TransactionError> {
        side_change::carry_out(self.root, self.services, &self.current, steps, actions)
    }
}
