//! A generation of the running host, staged: its deployment is checked out and locked, everything
//! that binding it takes is durable, and nothing boots differently yet.

use std::path::Path;

use crate::core::state::objects::ActiveManifest;
use crate::core::state::pending::{PendingGeneration, StagedGeneration, UpdateFailure, VERSION};
use crate::core::state::record::GenerationRecord;
use crate::core::values::paths::GENERATION_ARGUMENT;
use crate::host::Root;
use crate::host::facts::booted::{BootedDeployment, SYSROOT};
use crate::host::facts::tree_facts::TreeScope;
use crate::host::facts::{boot, interfaces};
use crate::os::{
    DeployRequest, Deployment, DeploymentId, DeploymentOrigin, ImportedCommit, OsError, Sysroot,
};

use super::finalize;
use super::offline_sysroot::{deploy_request, deployment_record};
use super::space;
use crate::transaction::TransactionError;
use crate::transaction::engine::apply;
use crate::transaction::engine::labels;
use crate::transaction::plan::deployment_plan::DeploymentPlan;
use crate::transaction::plan::target::{UpdateProgress, UpdatePurpose, UpdateTarget};
use crate::transaction::plan::tree_plan;
use crate::transaction::state::agent_files::AgentFiles;
use crate::transaction::state::current::DecodedConfig;
use crate::transaction::state::{objects, pending, record, rpm_ostree_request};

/// Stages the next generation. The caller holds the lock, and nothing is staged.
pub(crate) fn stage_generation(
    os: &mut dyn Sysroot,
    root: &Root,
    draft: &DeploymentPlan,
    imported: Option<&ImportedCommit>,
    target: UpdateTarget<'_>,
    progress: &mut dyn FnMut(UpdateProgress),
) -> Result<PendingGeneration, TransactionError> {
    progress(UpdateProgress::Deploying);
    let generation = boot::new_generation_id();
    let request = deploy_request(draft, imported, target.again(), &generation);
    let kernel_arguments = request.kernel_arguments.clone();
    let deployment = os.stage(&request)?;
    progress(UpdateProgress::Configuring);
    let prepared = prepare(os, root, draft, imported, target, &deployment, &generation);
    let kept = prepared.and_then(|record| {
        let intent = StagedGeneration {
            version: VERSION,
            deployment: deployment_record(&deployment, draft, imported, target),
            record,
            kernel_arguments,
            layering: deployment.layering.clone(),
            document: target.desired.object.document.clone(),
            base: draft.base.id.clone(),
            from: draft.current.record.as_ref().map(|record| record.generation.clone()),
            staged_in: boot::boot_id(),
            failures: Vec::new(),
            completes_first_boot: matches!(target.errand, UpdatePurpose::FirstBoot),
            had_network: interfaces::any_up(),
            transactions: imported.map_or(0, |imported| imported.transactions),
        };
        let pending = PendingGeneration::staged(intent);
        finalize::rehearse(&draft.base.id, &pending, os.special_files())?;
        pending::write_staged(root, &pending.intent)?;
        Ok(pending)
    });
    kept.inspect_err(|_| discard(os, &deployment.id))
}

/// Takes a deployment back whose generation could not be kept. It is locked, and lost with this boot at the latest.
pub(crate) fn discard(os: &mut dyn Sysroot, deployment: &DeploymentId) {
    match os.unstage(deployment) {
        // Something else took its place, or it is discarded already.
        Ok(()) | Err(OsError::NoSuchDeployment { .. }) => {}
        Err(error) => log::warn!("the staged deployment {deployment} could not be discarded: {error}"),
    }
}

/// Decides, with what the new image ships, whether the configuration can be bound to it, and stores
/// what it has outside `/etc`. The record is complete but for what binding finds.
fn prepare(
    os: &mut dyn Sysroot,
    root: &Root,
    draft: &DeploymentPlan,
    imported: Option<&ImportedCommit>,
    target: UpdateTarget<'_>,
    deployment: &Deployment,
    generation: &str,
) -> Result<GenerationRecord, TransactionError> {
    let directory = Path::new(SYSROOT).join(deployment.id.path());
    space::ensure_space(&directory)?;
    let next = Root::with_etc_and_var(&directory, Path::new("/etc"), Path::new("/var"))?;
    let (current, desired) = (&draft.current, &target.desired.host);
    let begins = target.begins_first_boot(current);
    let before = if begins { Some(desired) } else { current.host() };
    let mut plan =
        tree_plan::plan_tree_update(&next, current, before, desired, target.profile, TreeScope::Etc)?;
    if plan.is_obstructed() {
        return Err(TransactionError::Obstructed(plan.obstacles()));
    }
    plan.unsupported.clone_from(&draft.plan.unsupported);
    plan.deferred.clone_from(&draft.plan.deferred);
    let tree = plan.tree.clone().unwrap_or_default();
    let mut files = AgentFiles::after(root, Vec::new());
    objects::store_objects(&mut files, &tree.outside, target.profile)?;
    if begins {
        // What Ignition made there is not to be kept as somebody else's.
        let manifest = objects::manifest_digest(&tree.outside, target.profile);
        objects::write_active_manifest(
            &mut files,
            current.active.as_ref(),
            &ActiveManifest::adopted(manifest),
        )?;
    }
    apply::write_to_unused(
        root,
        &files.steps,
        &labels::labels_of_steps(root, &files.steps, &current.remembered().labels)?,
    )?;
    let given = labels::policy_labels_of_prior(os, &next, &current.remembered())?;
    let labels = labels::recorded_labels(
        &given,
        &tree.steps.steps,
        &labels::policy_labels_of_steps(os, &tree.steps.steps)?,
    );
    let bound = deployment_record(deployment, draft, imported, target);
    let record = record::compose_record(current, target.desired, &plan, labels, Some(bound));
    Ok(GenerationRecord { generation: generation.to_owned(), boot_id: boot::boot_id(), ..record })
}

/// Stages a pending generation once more, from what is on the disk: no registry is asked.
pub(crate) fn restage(
    os: &mut dyn Sysroot,
    root: &Root,
    booted: &BootedDeployment,
    pending: &PendingGeneration,
    failure: UpdateFailure,
) -> Result<PendingGeneration, TransactionError> {
    ensure_none_staged(os, root, booted)?;
    let intent = &pending.intent;
    let commit = intent.deployment.commit.clone();
    let image = intent.deployment.image.as_ref().and_then(|image| image.parse().ok());
    let origin = match image {
        Some(image) if commit != intent.base.commit => DeploymentOrigin::Image(image),
        _ => DeploymentOrigin::MergeDeployment,
    };
    let request = DeployRequest {
        stateroot: intent.base.stateroot.clone(),
        commit,
        origin,
        merge: intent.base.clone(),
        kernel_arguments: intent.kernel_arguments.clone(),
        layering: Some(intent.layering.clone()),
        replaces: None,
    };
    let deployment = os.stage(&request)?;
    let mut bound = intent.deployment.clone();
    bound.serial = deployment.id.serial;
    let intent = pending.again(failure, bound, boot::boot_id());
    let kept = space::ensure_space(&Path::new(SYSROOT).join(deployment.id.path()))
        .and_then(|()| Ok(pending::write_staged(root, &intent)?));
    kept.inspect_err(|_| discard(os, &deployment.id))?;
    Ok(PendingGeneration::staged(intent))
}

/// What is staged, whoever did it.
pub(crate) fn staged_deployment(os: &mut dyn Sysroot) -> Result<Option<Deployment>, TransactionError> {
    Ok(os.deployments()?.into_iter().find(|deployment| deployment.staged))
}

/// Takes back what is staged where it is ours: the agent was killed before it could say so, or what it says is of
/// another boot.
pub(crate) fn ensure_none_staged(
    os: &mut dyn Sysroot,
    root: &Root,
    booted: &BootedDeployment,
) -> Result<(), TransactionError> {
    match staged_deployment(os)? {
        None => Ok(()),
        Some(staged)
            if is_staged_by_us(&staged, booted)
                || rpm_ostree_request::is_staged_by_request(root, &staged) =>
        {
            Ok(os.unstage(&staged.id)?)
        }
        Some(staged) => Err(OsError::AlreadyStaged { deployment: staged.id.to_string() }.into()),
    }
}

/// The configuration that is pending.
pub(crate) fn pending_config(pending: &PendingGeneration) -> Result<DecodedConfig, TransactionError> {
    let document = pending.intent.document.to_string();
    let image = pending.intent.record.layered_image.clone();
    Ok(DecodedConfig::parse(document.as_bytes())?.layered(image))
}

/// Whether a boot entry's arguments name this generation.
pub(crate) fn names_generation(deployment: &Deployment, generation: &str) -> bool {
    let name = format!("{GENERATION_ARGUMENT}{generation}");
    deployment.kernel_arguments.contains(&name)
}

/// Whether we staged it: its boot entry names a generation that is not the one that runs. Whoever
/// else stages takes that over with the other arguments.
pub(crate) fn is_staged_by_us(staged: &Deployment, booted: &BootedDeployment) -> bool {
    let mut named =
        staged.kernel_arguments.iter().filter_map(|argument| argument.strip_prefix(GENERATION_ARGUMENT));
    named.any(|generation| booted.generation.as_deref() != Some(generation))
}

/// Whether the staged deployment is the one that is pending.
pub(crate) fn is_pending(staged: &Deployment, pending: &PendingGeneration) -> bool {
    let id: DeploymentId = pending.intent.deployment.id();
    staged.id == id && names_generation(staged, pending.generation())
}
