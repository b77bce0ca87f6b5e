//! Update of a sysroot that is not running: one new deployment, whose `/etc` is complete before a boot
//! entry refers to it.

use std::path::Path;

use super::error::UpdateError;
use super::{space, sysroot};
use crate::core::history::{HistoryEvent, HistoryNote};
use crate::core::plan::Plan;
use crate::core::state::record::{DeploymentRecord, GenerationRecord};
use crate::core::values::causes::chain;
use crate::core::values::identifiers::GenerationId;
use crate::core::values::image::ImageRef;
use crate::core::values::kernel_arguments::KernelArgument;
use crate::core::values::paths::GENERATION_ARGUMENT;
use crate::host::facts::boot;
use crate::host::facts::booted::open_deployment;
use crate::host::facts::tree_facts::{LocalMerging, TreeScope};
use crate::host::{LockedRoot, Root};
use crate::os::{DeployRequest, Deployment, DeploymentOrigin, ImportedCommit, Sysroot};
use crate::transaction::TransactionError;
use crate::transaction::engine::{apply, labels, policy_labels};
use crate::transaction::history;
use crate::transaction::plan::deployment_plan::{DeploymentPlan, plan_deployment, unchanged_generation};
use crate::transaction::plan::error::PlanError;
use crate::transaction::plan::target::{TargetSysroot, UpdateProgress, UpdateTarget};
use crate::transaction::plan::tree_plan::{TreeChange, plan_tree_update};
use crate::transaction::plan::{adopted_copy, etc_merge, writable_paths};
use crate::transaction::state::agent_files::AgentFiles;
use crate::transaction::state::current::DecodedConfig;
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

/// Plan, with the config that it starts from.
#[derive(Debug)]
pub struct PlannedUpdate {
    pub plan: Plan,
    /// Current config.
    pub before: Option<DecodedConfig>,
    /// OS image to import; `None` if that of the present deployment stays.
    pub image: Option<ImageRef>,
}

/// Plan an update without changing anything.
pub fn plan(os: &mut dyn Sysroot, target: UpdateTarget<'_>) -> Result<PlannedUpdate, TransactionError> {
    let mut draft = plan_deployment(os, target)?;
    etc_merge::predict_merge(os, target, &mut draft)?;
    if let TargetSysroot::Running(host) = target.sysroot {
        let checks = space::preflight(os, host, &draft)?;
        if let Some(tree) = &mut draft.plan.tree {
            tree.preflight.extend(checks);
        }
    }
    Ok(PlannedUpdate { plan: draft.plan, before: draft.current.configuration, image: draft.image })
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
    let bound = deployment_record(&deployment, &draft, imported.as_ref(), target);
    let next = open_deployment(sysroot, &deployment.id)?;
    ensure_agent(&target.sysroot.open(&draft.base.id)?, &next, &deployment)?;
    write_generation(os, sysroot, target, &draft, bound, &generation)?;
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
    if let Err(error) = sysroot::prune_objects(os, sysroot, &deployment.id.stateroot, None) {
        log::warn!(
            "cannot prune the object store: {error}; the next update tries again",
            error = chain(&error)
        );
    }
    Ok(OfflineUpdate { plan: draft.plan, deployment: Some(deployment), generation })
}

/// Fail if `next`, the tree of the new `deployment`, would boot without an agent.
pub(crate) fn ensure_agent(
    base: &Root,
    next: &Root,
    deployment: &Deployment,
) -> Result<(), TransactionError> {
    if !adopted_copy::is_lost_in(base, next)? {
        return Ok(());
    }
    let image = deployment.image.as_ref().map(|image| image.name().to_owned());
    Err(UpdateError::AgentMissing(image.unwrap_or_else(|| deployment.id.commit.clone())).into())
}

/// Compose the request for a new deployment.
pub(crate) fn deploy_request(
    draft: &DeploymentPlan,
    imported: Option<&ImportedCommit>,
    again: Option<&Deployment>,
    generation: &GenerationId,
) -> DeployRequest {
    let base = &draft.base.id;
    let mut kernel_arguments = draft.kernel_arguments.clone();
    kernel_arguments.push(KernelArgument::with_value(GENERATION_ARGUMENT, generation));
    let (commit, origin) = match (again, imported, &draft.image) {
        (Some(again), ..) => (&again.id.commit, DeploymentOrigin::Deployment(again.id.clone())),
        (None, Some(imported), Some(image)) => (&imported.commit, DeploymentOrigin::Image(image.clone())),
        // The same image with other packages.
        (None, Some(imported), None) => (&imported.commit, DeploymentOrigin::MergeDeployment),
        (None, None, _) => (&base.commit, DeploymentOrigin::MergeDeployment),
    };
    DeployRequest {
        stateroot: base.stateroot.clone(),
        commit: commit.clone(),
        origin,
        merge: base.clone(),
        kernel_arguments,
        layering: None,
        replaces: None,
    }
}

/// Compose the deployment part of a generation record.
pub(crate) fn deployment_record(
    deployment: &Deployment,
    draft: &DeploymentPlan,
    imported: Option<&ImportedCommit>,
    target: UpdateTarget<'_>,
) -> DeploymentRecord {
    let host = &target.desired.host;
    let source = target.redeployed().unwrap_or(&draft.base);
    let image = draft.image.as_ref().or(source.image.as_ref());
    let digest = imported.and_then(|imported| imported.manifest_digest.clone());
    let image_digest = digest.or_else(|| source.manifest_digest.clone());
    let pulled = imported.and_then(|imported| imported.signature.clone());
    let applied = draft.current.record.as_ref().and_then(|record| record.deployment.as_ref());
    let kept = applied.filter(|applied| applied.image_digest == image_digest);
    DeploymentRecord {
        stateroot: deployment.id.stateroot.clone(),
        commit: deployment.id.commit.clone(),
        serial: deployment.id.serial,
        image: image.map(ToString::to_string),
        image_digest,
        signature: pulled.or_else(|| kept.and_then(|applied| applied.signature.clone())),
        config_image: host.os.image.clone(),
        kernel_arguments: host.os.kernel_arguments.clone(),
        taken_over: draft.taken_over.clone(),
    }
}

/// Write config and record into the `/etc` of the new deployment, which has no boot entry yet. Accounts and
/// shipped files are read from that deployment, because its image may define others than the base.
fn write_generation(
    os: &mut dyn Sysroot,
    sysroot: &Path,
    target: UpdateTarget<'_>,
    draft: &DeploymentPlan,
    bound: DeploymentRecord,
    generation: &GenerationId,
) -> Result<(), TransactionError> {
    let root = open_deployment(sysroot, &bound.id())?;
    let (current, desired) = (&draft.current, &target.desired.host);
    writable_paths::ensure_writable(&root, desired)?;
    let base = target.sysroot.open(&draft.base.id)?;
    let merging = target.merge_policies(current, &base, &root)?;
    let change = TreeChange {
        current,
        before: current.host(),
        desired,
        profile: target.profile,
        reach: TreeScope::Etc,
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
        ..record::compose_record(current, target.desired, &plan, labels, Some(bound), lock.boot_id())
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
