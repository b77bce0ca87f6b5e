//! Update of a sysroot that is not running: one new deployment, whose `/etc` is complete before a boot
//! entry refers to it; and the return to the previous one.

use std::path::Path;

use super::error::UpdateError;
use super::new_deployment::{deploy_request, deployment_record, ensure_agent};
use super::{clean_up, sysroot};
use crate::core::history::{HistoryEvent, HistoryNote};
use crate::core::plan::Plan;
use crate::core::state::record::{DeploymentRecord, GenerationRecord};
use crate::core::values::causes::chain;
use crate::core::values::identifiers::GenerationId;
use crate::host::LockedRoot;
use crate::host::facts::boot;
use crate::host::facts::booted::open_deployment;
use crate::host::facts::tree_facts::{LocalMerging, TreeScope};
use crate::os::{Deployment, Sysroot};
use crate::transaction::TransactionError;
use crate::transaction::engine::{apply, labels, policy_labels};
use crate::transaction::history;
use crate::transaction::plan::deployment_plan::{DeploymentPlan, plan_deployment, unchanged_generation};
use crate::transaction::plan::error::PlanError;
use crate::transaction::plan::target::{UpdateProgress, UpdateTarget};
use crate::transaction::plan::tree_plan::{TreeChange, plan_tree_update};
use crate::transaction::plan::{adopted_copy, etc_merge, writable_paths};
use crate::transaction::state::agent_files::AgentFiles;
use crate::transaction::state::error::StateError;
use crate::transaction::state::{objects, record};

/// Result of an update.
#[derive(Debug)]
pub struct OfflineUpdate {
    pub plan: Plan,
    /// New deployment; `None` if nothing differs.
    pub deployment: Option<Deployment>,
    /// Generation of the new deployment, or the unchanged one.
    pub generation: GenerationId,
}

/// Make a deployment of the next generation. On an error the current boot entries remain.
pub fn apply(
    os: &mut dyn Sysroot,
    sysroot: &Path,
    target: UpdateTarget<'_>,
    progress: &mut dyn FnMut(UpdateProgress),
) -> Result<OfflineUpdate, TransactionError> {
    sysroot::recover(os, sysroot)?;
    let mut draft = plan_deployment(os, target)?;
    etc_merge::predict_merge(os, target, &mut draft)?;
    draft.ensure_unobstructed()?;
    let imported = draft.import(os, progress)?;
    if let Some(generation) = unchanged_generation(&draft, target) {
        return Ok(OfflineUpdate { plan: draft.plan, deployment: None, generation });
    }
    etc_merge::ensure_mergeable(os, target, &draft, imported.as_ref())?;
    progress(UpdateProgress::Deploying);
    let generation = boot::new_generation_id();
    let deployment =
        os.deploy(&deploy_request(&draft, imported.as_ref(), target.redeployed(), &generation))?;
    progress(UpdateProgress::Configuring);
    let deployed = deployment_record(&deployment, &draft, imported.as_ref(), target);
    let next = open_deployment(sysroot, &deployment.id)?;
    ensure_agent(&target.sysroot.open(&draft.base.id)?, &next, &deployment)?;
    write_generation(os, sysroot, target, &draft, deployed, &generation)?;
    progress(UpdateProgress::WritingBootEntries);
    os.finish()?;
    let note = HistoryNote {
        image: deployment.image.as_ref().map(|image| image.name().to_owned()),
        ..HistoryNote::of_config(&target.desired.object.name, &generation)
    };
    match open_deployment(sysroot, &deployment.id) {
        Ok(root) => history::note(&root, HistoryEvent::Deployed, note),
        Err(error) => log::warn!("cannot add to the history: {}", chain(&error)),
    }
    // Unneeded objects only occupy space; the next update tries again.
    if let Err(error) = clean_up::prune_objects(os, sysroot, &deployment.id.stateroot, None) {
        log::warn!(
            "cannot prune the object store: {error}; the next update tries again",
            error = chain(&error)
        );
    }
    Ok(OfflineUpdate { plan: draft.plan, deployment: Some(deployment), generation })
}

/// Write config and record into the `/etc` of the new deployment, which has no boot entry yet. Accounts and
/// shipped files are read from that deployment, because its image may define others than the base.
fn write_generation(
    os: &mut dyn Sysroot,
    sysroot: &Path,
    target: UpdateTarget<'_>,
    draft: &DeploymentPlan,
    deployed: DeploymentRecord,
    generation: &GenerationId,
) -> Result<(), TransactionError> {
    let root = open_deployment(sysroot, &deployed.id())?;
    let (current, desired) = (&draft.current, &target.desired.host);
    writable_paths::ensure_writable(&root, desired)?;
    let base = target.sysroot.open(&draft.base.id)?;
    let merging = target.merge_policies(current, &base, &root)?;
    let change = TreeChange {
        current,
        before: current.host(),
        desired,
        profile: target.profile,
        scope: TreeScope::Etc,
        merging: LocalMerging::by(merging.as_ref(), &base),
    };
    let mut plan = plan_tree_update(&root, change)?;
    target.overrule_conflicts(&mut plan, &root);
    PlanError::ensure_paths_free(&plan)?;
    plan.unsupported.clone_from(&draft.plan.unsupported);
    plan.deferred.clone_from(&draft.plan.deferred);
    // The object store is in the shared `/var`, where other commands may be working.
    let lock = LockedRoot::lock(&root)?;
    let tree = plan.tree.clone().unwrap_or_default();
    let labels = policy_labels::of_new_generation(os, &root, &current.prior_changes(), &tree)?;
    let in_manifest = labels.manifest.clone();
    let record = GenerationRecord {
        generation: generation.to_owned(),
        ..record::compose_record(current, target.desired, &plan, labels, Some(deployed), lock.boot_id())
    };
    let mut files = AgentFiles::after(&root, Vec::new());
    record::etc_change_steps(&mut files, tree.steps, target.desired, &record, |files| {
        files.extend(adopted_copy::next_unit_steps(&root)?);
        record::first_presets(files, &root, target.desired)?;
        objects::store_objects(files, &tree.outside, record.profile, &in_manifest)
    })?;
    let steps = files.steps;
    let labels = labels::terminated_labels(&policy_labels::of_steps(os, &root, &steps)?);
    Ok(apply::write_to_unused(&root, &steps, &labels)?)
}

/// Make the previous deployment of the stateroot the default one, unchanged: a sysroot that is not running
/// has no running `/etc` to merge from.
pub fn roll_back(os: &mut dyn Sysroot, sysroot: &Path) -> Result<(Deployment, Deployment), TransactionError> {
    let deployments = os.deployments()?;
    let Some(default) = deployments.first() else {
        return Err(StateError::NoDeployment(sysroot.display().to_string()).into());
    };
    let stateroot = &default.id.stateroot;
    let previous = deployments.iter().skip(1).find(|other| other.id.stateroot == *stateroot);
    let Some(previous) = previous else {
        return Err(UpdateError::NoPreviousDeployment(stateroot.clone()).into());
    };
    os.set_default(&previous.id)?;
    Ok((default.clone(), previous.clone()))
}
