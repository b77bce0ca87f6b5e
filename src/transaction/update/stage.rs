//! Staging of a generation on the running host: the deployment is checked out and locked, and everything
//! that finalization needs is durable. The default boot entry is unchanged, but where rpm-ostreed changes the packages of
//! another than the booted one.

pub(crate) mod rollback_pin;
mod unlock;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

pub use self::unlock::unlock;
use super::new_deployment::{deploy_request, deployment_record, ensure_agent};
use super::rollback::BY_OPERATOR;
use super::{clean_up, extensions, finalize, running_host, space};
use crate::core::config::managed_files::unit_path;
use crate::core::history::{HistoryEvent, HistoryNote};
use crate::core::plan::Plan;
use crate::core::state::objects::ActiveManifest;
use crate::core::state::pending::{PendingGeneration, StagedGeneration, UpdateFailure, VERSION};
use crate::core::state::record::GenerationRecord;
use crate::core::values::causes::chain;
use crate::core::values::identifiers::{BootId, GenerationId};
use crate::core::values::names::ManagedPath;
use crate::host::facts::awaited_mounts::AwaitedMounts;
use crate::host::facts::booted::SYSROOT;
use crate::host::facts::tree_facts::{LocalMerging, TreeScope};
use crate::host::facts::{boot, interfaces};
use crate::host::{LockedHost, LockedRoot, Root};
use crate::os::{
    DeployRequest, Deployment, DeploymentId, DeploymentOrigin, ImportedCommit, OsError, Sysroot,
};
use crate::transaction::TransactionError;
use crate::transaction::engine::{apply, labels, policy_labels};
use crate::transaction::history;
use crate::transaction::plan::deployment_plan::DeploymentPlan;
use crate::transaction::plan::error::PlanError;
use crate::transaction::plan::target::{UpdateProgress, UpdatePurpose, UpdateTarget};
use crate::transaction::plan::tree_plan::{TreeChange, plan_tree_update};
use crate::transaction::plan::writable_paths;
use crate::transaction::state::agent_files::AgentFiles;
use crate::transaction::state::current::{CurrentState, DecodedConfig};
use crate::transaction::state::{blocked, interrupted, objects, pending, record, rpm_ostree_request};

/// Table from which systemd makes mount units.
const FSTAB: &str = "/etc/fstab";

/// Stage the next generation. No deployment is staged before.
pub(crate) fn stage_generation(
    os: &mut dyn Sysroot,
    host: &LockedHost<'_>,
    draft: &DeploymentPlan,
    imported: Option<&ImportedCommit>,
    target: UpdateTarget<'_>,
    progress: &mut dyn FnMut(UpdateProgress),
) -> Result<PendingGeneration, TransactionError> {
    progress(UpdateProgress::Deploying);
    let generation = boot::new_generation_id();
    let request = deploy_request(draft, imported, target.redeployed(), &generation);
    let kernel_arguments = request.kernel_arguments.clone();
    if let Some(tree) = &draft.plan.tree {
        space::ensure_space_to_stage(host.as_root(), &tree.outside, draft.current.host())?;
    }
    let deployment = os.stage(&request, host.boot_id())?;
    progress(UpdateProgress::Configuring);
    let prepared = prepare(os, host, draft, imported, target, &deployment, &generation);
    let kept = prepared.and_then(|record| {
        let intent = StagedGeneration {
            version: VERSION,
            deployment: deployment_record(&deployment, draft, imported, target),
            record,
            kernel_arguments,
            layering: deployment.layering.clone(),
            document: target.desired.object.document.clone(),
            base: draft.base.id.clone(),
            replaces: draft.current.record.as_ref().map(|record| record.generation.clone()),
            staged_in_boot: host.boot_id().to_owned(),
            failures: Vec::new(),
            completes_first_boot: matches!(target.purpose, UpdatePurpose::FirstBoot),
            had_network: interfaces::any_up(),
            transactions: imported.map_or(0, |imported| imported.transactions),
        };
        let pending = PendingGeneration::new(intent);
        finalize::rehearse(host, &draft.base.id, &pending, os.special_files())?;
        pending::write_staged(host.as_root(), &pending.staged)?;
        Ok(pending)
    });
    let pending = kept.inspect_err(|_| discard(os, &deployment.id))?;
    let diff = &draft.plan.diff;
    let units: Vec<ManagedPath> = diff.units.keys().map(|name| unit_path(name)).collect();
    let note = staged_note(&pending).after(pending.staged.replaces.as_ref());
    let note = note.with_paths(diff.files.keys().chain(diff.links.keys()).chain(&units));
    history::note(host, HistoryEvent::Staged, note);
    Ok(pending)
}

/// Describe a staged generation in the history.
fn staged_note(pending: &PendingGeneration) -> HistoryNote {
    let StagedGeneration { record, deployment, .. } = &pending.staged;
    HistoryNote { image: deployment.image.clone(), ..HistoryNote::of(record) }
}

/// Discard a staged deployment after an error. On failure it stays locked, and is lost with this boot at
/// the latest.
pub(crate) fn discard(os: &mut dyn Sysroot, deployment: &DeploymentId) {
    match os.unstage(deployment) {
        // Another program replaced or discarded it already.
        Ok(()) | Err(OsError::NoSuchDeployment { .. }) => {}
        Err(error) => {
            log::warn!("cannot discard the staged deployment {deployment}: {error}", error = chain(&error));
        }
    }
}

/// Check that the config can be applied to the new deployment, and store its files outside `/etc`. Returns
/// the record; finalization adds the results of the final `/etc` merge.
fn prepare(
    os: &mut dyn Sysroot,
    root: &LockedRoot<'_>,
    draft: &DeploymentPlan,
    imported: Option<&ImportedCommit>,
    target: UpdateTarget<'_>,
    deployment: &Deployment,
    generation: &GenerationId,
) -> Result<GenerationRecord, TransactionError> {
    let directory = Path::new(SYSROOT).join(deployment.id.path());
    space::ensure_space_to_finalize(os, &deployment.id)?;
    let next = Root::with_etc_and_var(&directory, Path::new("/etc"), Path::new("/var"))?;
    ensure_agent(root.as_root(), &next, deployment)?;
    let (current, desired) = (&draft.current, &target.desired.host);
    writable_paths::ensure_writable(&next, desired)?;
    let begins = target.starts_first_boot(current);
    let before = if begins { Some(desired) } else { current.host() };
    let merging = target.merge_policies(current, root.as_root(), &next)?;
    let change = TreeChange {
        current,
        before,
        desired,
        profile: target.profile,
        scope: TreeScope::Etc,
        merging: LocalMerging::by(merging.as_ref(), root),
    };
    let mut plan = plan_tree_update(&next, change)?;
    target.overrule_conflicts(&mut plan, &next);
    PlanError::ensure_paths_free(&plan)?;
    rehearse_activation(&next, change)?;
    ensure_mounted(root, &next, draft, &plan)?;
    plan.unsupported.clone_from(&draft.plan.unsupported);
    plan.deferred.clone_from(&draft.plan.deferred);
    let tree = plan.tree.clone().unwrap_or_default();
    let mut files = AgentFiles::after(root, Vec::new());
    let labels = policy_labels::of_new_generation(os, &next, &current.prior_changes(), &tree)?;
    objects::store_objects(&mut files, &tree.outside, target.profile, &labels.manifest)?;
    if begins {
        // Files that Ignition created must not become pre-images of an administrator.
        let manifest = objects::manifest_digest(&tree.outside, target.profile, &labels.manifest);
        objects::write_active_manifest(
            &mut files,
            current.active.as_ref(),
            &ActiveManifest::adopted(manifest),
        )?;
    }
    apply::write_to_unused(
        root.as_root(),
        &files.steps,
        &labels::labels_of_steps(root.as_root(), &files.steps, &current.given_labels())?,
    )?;
    let deployed = deployment_record(deployment, draft, imported, target);
    let record =
        record::compose_record(current, target.desired, &plan, labels, Some(deployed), root.boot_id());
    Ok(GenerationRecord { generation: generation.to_owned(), ..record })
}

/// Fail if a path outside `/etc` of the new deployment cannot be activated on the running `/var`: the plan was made with the
/// links of the running image. Paths that users can change are left to the activation.
fn rehearse_activation(next: &Root, change: TreeChange<'_>) -> Result<(), TransactionError> {
    // Local changes below `/etc` were looked at before, and none are merged elsewhere.
    let change = TreeChange { scope: TreeScope::Everything, merging: None, ..change };
    let mut plan = plan_tree_update(next, change)?;
    // The activation creates the missing directories that links of the image lead to: nothing can be in the way there.
    let is_created = |path: &ManagedPath| {
        let is_link = |above: &ManagedPath| next.link_target(above).is_ok_and(|target| target.is_some());
        path.ancestors().any(|above| is_link(&above) && !next.leads_to_directory(&above))
    };
    plan.leave_out_obstructed(|path| next.is_changed_by_users(path) || is_created(path));
    Ok(PlanError::ensure_paths_free(&plan)?)
}

/// Fail if a path outside `/etc`, of the new generation or of the active one, lies below a mount that this boot has not made: the
/// activation would wait for it in vain, after the disruption. A mount that the new config changes may be made then.
fn ensure_mounted(
    running: &Root,
    next: &Root,
    draft: &DeploymentPlan,
    plan: &Plan,
) -> Result<(), TransactionError> {
    let diff = &draft.plan.diff;
    let is_changed = |unit: &str| {
        let drop_ins = unit_path(&format!("{unit}.d"));
        let mut paths = diff.files.keys().chain(diff.links.keys());
        diff.units.contains_key(unit)
            || paths.any(|path| {
                path.as_str() == FSTAB || *path == unit_path(unit) || path.is_within(drop_ins.as_str())
            })
    };
    let awaited = AwaitedMounts::look(running)?.without(is_changed);
    let active = match draft.current.active.as_ref().and_then(|active| active.manifest) {
        // Its files stay where they are if it is lost.
        Some(active) => {
            objects::load_manifest(running, active).map(|found| found.entries).unwrap_or_default()
        }
        None => BTreeMap::new(),
    };
    let outside = plan.tree.iter().flat_map(|tree| tree.outside.entries.keys());
    let paths: BTreeSet<&ManagedPath> = outside.chain(active.keys()).collect();
    let obstructed: Vec<String> =
        paths.into_iter().filter_map(|path| awaited.obstruction(next, path)).collect();
    if obstructed.is_empty() { Ok(()) } else { Err(PlanError::Obstructed(obstructed).into()) }
}

/// Stage a pending generation again, from the local repository, without a registry.
pub(crate) fn restage(
    os: &mut dyn Sysroot,
    host: &LockedHost<'_>,
    pending: &PendingGeneration,
    failure: UpdateFailure,
) -> Result<PendingGeneration, TransactionError> {
    ensure_none_staged(os, host)?;
    let intent = &pending.staged;
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
    let deployment = os.stage(&request, host.boot_id())?;
    let mut deployed = intent.deployment.clone();
    deployed.serial = deployment.id.serial;
    let intent = pending.restaged(failure, deployed, host.boot_id().to_owned());
    let kept = space::ensure_space_to_finalize(os, &deployment.id)
        .and_then(|()| Ok(pending::write_staged(host.as_root(), &intent)?));
    kept.inspect_err(|_| discard(os, &deployment.id))?;
    let pending = PendingGeneration::new(intent);
    let reason = pending.staged.failures.last().map(|failure| failure.reason.as_str()).unwrap_or_default();
    history::note(host, HistoryEvent::Staged, staged_note(&pending).because(&format!("again: {reason}")));
    Ok(pending)
}

/// Discard a staged generation. The pending record goes first: without it, the deployment is never
/// finalized.
pub fn unstage(
    os: &mut dyn Sysroot,
    host: &LockedHost<'_>,
    pending: &PendingGeneration,
) -> Result<(), TransactionError> {
    pending::remove(host.as_root())?;
    os.unstage(&pending.staged.deployment.id())?;
    history::note(host, HistoryEvent::Unstaged, staged_note(pending));
    rollback_pin::release_unneeded(os, host)
}

/// Result of discarding the staged deployment.
#[derive(Debug)]
pub enum UnstageResult {
    /// No deployment is staged.
    Nothing,
    /// This generation was staged.
    Generation(Box<PendingGeneration>),
    /// A deployment without a pending generation was staged: another program's, or a leftover.
    Other(DeploymentId),
}

/// Discard the staged deployment, with the pending record, the objects and the ref of its generation. Fails for another
/// program's deployment, unless `takes_foreign`.
pub fn discard_staged(
    os: &mut dyn Sysroot,
    host: &LockedHost<'_>,
    takes_foreign: bool,
) -> Result<UnstageResult, TransactionError> {
    interrupted::recover_first(host)?;
    extensions::remove(host)?;
    let pending = pending::load_or_set_aside(host.as_root())?;
    let result = match (staged_deployment(os)?, pending) {
        (Some(deployment), Some(pending)) if is_pending(&deployment, &pending) => {
            unstage(os, host, &pending)?;
            release_rolled_back(host)?;
            UnstageResult::Generation(Box::new(pending))
        }
        (Some(deployment), _) if takes_foreign => {
            os.unstage(&deployment.id)?;
            UnstageResult::Other(deployment.id)
        }
        (Some(deployment), _) => {
            ensure_none_staged(os, host)?;
            UnstageResult::Other(deployment.id)
        }
        // Another program discarded the deployment; the record would have it staged again.
        (None, Some(pending)) if !pending.is_finalized && pending.booted_in.is_empty() => {
            pending::remove(host.as_root())?;
            release_rolled_back(host)?;
            UnstageResult::Generation(Box::new(pending))
        }
        (None, _) => return Ok(UnstageResult::Nothing),
    };
    rollback_pin::release_unneeded(os, host)?;
    running_host::end_request(host, os);
    clean_up::clean_up(os, host);
    Ok(result)
}

/// Release the block of the booted generation, which a staged rollback that is discarded would have left.
fn release_rolled_back(host: &LockedHost<'_>) -> Result<(), TransactionError> {
    let booted = CurrentState::load_record(host.as_root()).unwrap_or_default();
    let blocked = blocked::load_or_set_aside(host)?;
    let (Some(booted), Some(blocked)) = (booted, blocked) else { return Ok(()) };
    if blocked.generation.as_ref() == Some(&booted.generation) && blocked.reason == BY_OPERATOR {
        blocked::release(host)?;
    }
    Ok(())
}

/// Return the staged deployment, ours or foreign.
pub(crate) fn staged_deployment(os: &mut dyn Sysroot) -> Result<Option<Deployment>, TransactionError> {
    Ok(os.deployments()?.into_iter().find(|deployment| deployment.staged))
}

/// Discard a staged deployment of ours that is not to be kept: one without a valid pending record, as a killed process
/// leaves it, or one that a soft reboot left locked. Fails for a foreign one.
pub(crate) fn ensure_none_staged(
    os: &mut dyn Sysroot,
    host: &LockedHost<'_>,
) -> Result<(), TransactionError> {
    match staged_deployment(os)? {
        None => Ok(()),
        Some(staged)
            if is_staged_in(&staged, host.boot_id())
                || is_of_pending_record(host, &staged)
                || rpm_ostree_request::is_staged_by_request(host, &staged) =>
        {
            log::info!(
                "discarding the staged deployment {} of generation {}, which no pending record names",
                staged.id,
                staged.generation().unwrap_or("(none)")
            );
            Ok(os.unstage(&staged.id)?)
        }
        Some(staged) => Err(OsError::AlreadyStaged { deployment: staged.id.to_string() }.into()),
    }
}

/// Decode the config in the pending record.
pub(crate) fn pending_config(pending: &PendingGeneration) -> Result<DecodedConfig, TransactionError> {
    let document = pending.staged.document.to_string();
    let image = pending.staged.record.layered_image.clone();
    Ok(DecodedConfig::parse_applied(document.as_bytes())?.layered(image))
}

/// Return true if this agent staged the deployment in this boot.
pub(crate) fn is_staged_in(staged: &Deployment, boot_id: &BootId) -> bool {
    staged.staged_in.as_ref() == Some(boot_id)
}

fn is_of_pending_record(host: &LockedHost<'_>, staged: &Deployment) -> bool {
    // One that cannot be read names nothing of ours.
    let pending = pending::load(host.as_root()).unwrap_or_default();
    pending.is_some_and(|pending| is_pending(staged, &pending))
}

/// Return true if the staged deployment is that of the pending record. Its kernel arguments are compared too: a program
/// that stages over it in the same boot copies its origin, and may change them. A soft reboot leaves it staged.
pub(crate) fn is_pending(staged: &Deployment, pending: &PendingGeneration) -> bool {
    let is_its_entry = staged.kernel_arguments == pending.staged.kernel_arguments;
    is_staged_in(staged, &pending.staged.staged_in_boot)
        && staged.id == pending.staged.deployment.id()
        && is_its_entry
}
