//! Update of the running host: a live update if no change needs a reboot, or else a staged update, whose
//! deployment receives its configuration at shutdown.

use crate::core::plan::Plan;
use crate::core::plan::service_actions;
use crate::core::state::blocked::BlockedTarget;
use crate::core::state::booted_state;
use crate::core::state::booted_state::PendingOutcome;
use crate::core::state::pending::{PENDING, PendingGeneration};
use crate::host::facts::boot;
use crate::host::facts::booted::BootedDeployment;
use crate::host::fs::lock::HostLock;
use crate::host::{Root, ServiceControl};
use crate::os::protocol::SysrootAccess;
use crate::os::{ImportedCommit, Sysroot};
use crate::transaction::state::boot_check_time;
use crate::transaction::state::interrupted;

use super::offline_sysroot::deployment_record;
use super::{extensions, stage};
use crate::transaction::engine::apply;
use crate::transaction::engine::apply::JournaledChange;
use crate::transaction::plan::deployment_plan::unchanged_generation;
use crate::transaction::plan::deployment_plan::{DeploymentPlan, plan_deployment};
use crate::transaction::plan::etc_merge;
use crate::transaction::plan::target::{UpdateProgress, UpdatePurpose, UpdateTarget};
use crate::transaction::state::blocked::block;
use crate::transaction::state::current::CurrentState;
use crate::transaction::state::decided_change::DecidedChange;
use crate::transaction::state::{blocked, pending, rpm_ostree_request};
use crate::transaction::{SysrootOpener, TransactionError};

/// Result of an update.
#[derive(Debug)]
pub enum UpdateOutcome {
    /// The desired config is already the current one.
    Unchanged { generation: String },
    /// A live update was applied.
    Live { plan: Plan, generation: String },
    /// A staged update: the deployment boots with the next reboot after it is unlocked.
    Staged {
        /// Plan of the staged generation; `None` if an earlier command staged it.
        plan: Option<Plan>,
        pending: Box<PendingGeneration>,
    },
}

/// Remaining work after the preparation.
#[derive(Debug)]
pub enum UpdatePreparation {
    /// None: the desired config is already the current one.
    Unchanged { generation: String },
    /// A live update, without a reboot.
    Live { plan: Plan },
    /// Unlocking and rebooting.
    Staged {
        /// Plan of the staged generation; `None` if an earlier command staged it.
        plan: Option<Plan>,
        pending: Box<PendingGeneration>,
    },
}

/// Apply the target to the running host, or stage it if it needs a reboot.
pub fn apply(
    os: &mut dyn Sysroot,
    services: &dyn ServiceControl,
    booted: &BootedDeployment,
    target: UpdateTarget<'_>,
    progress: &mut dyn FnMut(UpdateProgress),
) -> Result<UpdateOutcome, TransactionError> {
    let root = Root::open(std::path::Path::new("/"))?;
    let _lock = HostLock::take(&root)?;
    let boot_id = boot::boot_id();
    match decide(&root, os, booted, target, &boot_id, progress)? {
        Decision::Nothing { generation } => Ok(UpdateOutcome::Unchanged { generation }),
        Decision::Ready(draft) => apply_live(&root, services, *draft, target, &boot_id),
        Decision::Staged(plan, pending) => {
            Ok(UpdateOutcome::Staged { plan: plan.map(|plan| *plan), pending })
        }
    }
}

/// Do all work of an update that does not disrupt workloads: plan, import, stage. [`apply()`] does the rest
/// and reuses the results.
pub fn prepare(
    os: &mut dyn Sysroot,
    booted: &BootedDeployment,
    target: UpdateTarget<'_>,
    progress: &mut dyn FnMut(UpdateProgress),
) -> Result<UpdatePreparation, TransactionError> {
    let root = Root::open(std::path::Path::new("/"))?;
    let _lock = HostLock::take(&root)?;
    Ok(match decide(&root, os, booted, target, &boot::boot_id(), progress)? {
        Decision::Nothing { generation } => UpdatePreparation::Unchanged { generation },
        Decision::Ready(draft) => UpdatePreparation::Live { plan: draft.plan },
        Decision::Staged(plan, pending) => {
            UpdatePreparation::Staged { plan: plan.map(|plan| *plan), pending }
        }
    })
}

/// Way from the current config to the desired one.
enum Decision {
    Nothing { generation: String },
    Ready(Box<DeploymentPlan>),
    Staged(Option<Box<Plan>>, Box<PendingGeneration>),
}

/// Choose between no update, a live update and a staged one, and stage the latter. The caller holds the
/// host lock.
fn decide(
    root: &Root,
    os: &mut dyn Sysroot,
    booted: &BootedDeployment,
    target: UpdateTarget<'_>,
    boot_id: &str,
    progress: &mut dyn FnMut(UpdateProgress),
) -> Result<Decision, TransactionError> {
    interrupted::recover_first(root, boot_id)?;
    extensions::remove(root)?;
    let found = observe_pending(root, booted, boot_id)?;
    let runs = found.as_ref().is_some_and(|found| found.is_unconfirmed_for(target));
    ensure_allowed(root, found.as_ref(), target)?;
    let mut draft = plan_deployment(os, target)?;
    etc_merge::predict_merge(os, target, &mut draft)?;
    draft.ensure_unobstructed()?;
    let mut waits = match &found {
        // The desired generation is booted already, so a staged deployment of ours is a leftover.
        Some(_) if runs => stage::ensure_none_staged(os, root, booted).map(|()| None)?,
        found => staged_pending(root, os, booted, found.as_ref())?,
    };
    if os.layers_packages() && !draft.is_same_os() {
        // rpm-ostreed stages what it imports, and so replaces the staged deployment.
        if runs {
            ensure_confirmed(root, found.as_ref())?;
        }
        if let Some(pending) = keep_or_unstage(root, os, waits.take(), target, draft.digest())? {
            return Ok(Decision::Staged(None, pending));
        }
    }
    let imported = import(root, os, &mut draft, target, progress)?;
    let digest = imported.as_ref().and_then(|imported| imported.manifest_digest.as_deref());
    if let Some(pending) = keep_or_unstage(root, os, waits, target, digest)? {
        return Ok(Decision::Staged(None, pending));
    }
    if !target.always_reboots()
        && let Some(generation) = unchanged_generation(&draft, target)
    {
        return Ok(Decision::Nothing { generation });
    }
    if !needs_reboot(&draft, target) {
        return Ok(Decision::Ready(Box::new(draft)));
    }
    if runs {
        replace_unconfirmed(root, found.as_ref()).inspect_err(|_| discard_imported(os, imported.as_ref()))?;
    }
    let pending = stage_checked(root, os, &draft, imported.as_ref(), target, progress)
        .inspect_err(|_| discard_imported(os, imported.as_ref()))?;
    Ok(Decision::Staged(Some(Box::new(draft.plan)), Box::new(pending)))
}

/// Import the image or packages that the plan needs, with the extensions repository in place.
fn import(
    root: &Root,
    os: &mut dyn Sysroot,
    draft: &mut DeploymentPlan,
    target: UpdateTarget<'_>,
    progress: &mut dyn FnMut(UpdateProgress),
) -> Result<Option<ImportedCommit>, TransactionError> {
    if os.layers_packages() && !draft.is_same_os() {
        rpm_ostree_request::write_request(root, &draft.import_request())?;
    }
    let _lent = match draft.extensions_image(target, &*os) {
        Some(image) => {
            progress(UpdateProgress::Unpacking);
            Some(extensions::provide(root, os, image)?)
        }
        None => None,
    };
    draft.import(os, progress)
}

/// Discard the deployment that rpm-ostreed staged during the import.
fn discard_imported(os: &mut dyn Sysroot, imported: Option<&ImportedCommit>) {
    if let Some(made) = imported.and_then(|imported| imported.staged.as_ref()) {
        stage::discard(os, made);
    }
}

fn stage_checked(
    root: &Root,
    os: &mut dyn Sysroot,
    draft: &DeploymentPlan,
    imported: Option<&ImportedCommit>,
    target: UpdateTarget<'_>,
    progress: &mut dyn FnMut(UpdateProgress),
) -> Result<PendingGeneration, TransactionError> {
    etc_merge::ensure_mergeable(os, target, draft, imported)?;
    stage::stage_generation(os, root, draft, imported, target, progress)
}

/// Pending generation and its state in this boot.
struct FoundPending {
    pending: PendingGeneration,
    outcome: PendingOutcome,
}

impl FoundPending {
    /// Return true if the desired config is booted, but unconfirmed.
    fn is_unconfirmed_for(&self, target: UpdateTarget<'_>) -> bool {
        let is_wanted = self.pending.staged.record.config_hash == target.desired.config_hash();
        self.outcome == PendingOutcome::Booted && is_wanted && target.redeployed().is_none()
    }
}

/// Load the pending generation and its state. A generation that failed to boot is blocked, and its record
/// removed.
fn observe_pending(
    root: &Root,
    booted: &BootedDeployment,
    boot_id: &str,
) -> Result<Option<FoundPending>, TransactionError> {
    let Some(pending) = pending::load(root)? else { return Ok(None) };
    let record = CurrentState::load_record(root)?;
    match booted_state::pending_outcome(booted.observation(record.as_ref(), Some(&pending)), boot_id, None) {
        PendingOutcome::RolledBack(reason) => {
            block(root, &pending.staged.record, &reason)?;
            pending::remove(root)?;
            Ok(None)
        }
        outcome => Ok(Some(FoundPending { pending, outcome })),
    }
}

/// Fail if the target is blocked, or has to wait for a boot check. A rollback by an operator is always
/// allowed.
fn ensure_allowed(
    root: &Root,
    found: Option<&FoundPending>,
    target: UpdateTarget<'_>,
) -> Result<(), TransactionError> {
    if target.redeployed().is_some() {
        return Ok(());
    }
    if !found.is_some_and(|found| found.is_unconfirmed_for(target)) {
        ensure_confirmed(root, found)?;
    }
    ensure_not_blocked(root, target)
}

/// Fail while the booted generation is unconfirmed: a new deployment would replace the rollback deployment
/// that the generation may still need.
fn ensure_confirmed(root: &Root, found: Option<&FoundPending>) -> Result<(), TransactionError> {
    match found {
        Some(FoundPending { pending, outcome: PendingOutcome::Booted | PendingOutcome::RollBack(_) }) => {
            match boot_check_time::time_left(root) {
                Some(left) => {
                    let (generation, seconds) = (pending.generation().to_owned(), left.as_secs());
                    Err(TransactionError::Unconfirmed { generation, seconds })
                }
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

fn ensure_not_blocked(root: &Root, target: UpdateTarget<'_>) -> Result<(), TransactionError> {
    let is_forced = matches!(target.purpose, UpdatePurpose::Forced);
    match blocked::load(root)? {
        Some(held) if held.blocks(&target.desired.config_hash()) && !is_forced => {
            Err(TransactionError::Blocked(Box::new(held)))
        }
        // Another config is desired, so the block no longer applies.
        Some(BlockedTarget { .. }) => Ok(blocked::release(root)?),
        None => Ok(()),
    }
}

/// Return the generation that was staged in this boot and still is. Removes a pending record of another
/// boot, and leftovers of ours in the sysroot.
fn staged_pending(
    root: &Root,
    os: &mut dyn Sysroot,
    booted: &BootedDeployment,
    found: Option<&FoundPending>,
) -> Result<Option<PendingGeneration>, TransactionError> {
    if let (Some(FoundPending { pending, outcome: PendingOutcome::AwaitsReboot }), Some(staged)) =
        (found, stage::staged_deployment(os)?)
        && stage::is_pending(&staged, pending)
    {
        return Ok(Some(pending.clone()));
    }
    stage::ensure_none_staged(os, root, booted)?;
    if let Some(FoundPending { outcome, .. }) = found {
        log::info!(outcome:? = outcome; "replacing the pending record {PENDING}");
        pending::remove(root)?;
    }
    Ok(None)
}

/// Remove the pending record of an unconfirmed generation whose boot check timed out, so that an update can
/// replace it.
fn replace_unconfirmed(root: &Root, found: Option<&FoundPending>) -> Result<(), TransactionError> {
    ensure_confirmed(root, found)?;
    Ok(pending::remove(root)?)
}

fn is_same(pending: &PendingGeneration, target: UpdateTarget<'_>, imported: Option<&str>) -> bool {
    let (record, deployment) = (&pending.staged.record, &pending.staged.deployment);
    let is_image = match (target.redeployed(), imported) {
        (Some(again), _) => again.id.commit == deployment.commit,
        (None, Some(digest)) => deployment.image_digest.as_deref() == Some(digest),
        (None, None) => deployment.commit == pending.staged.base.commit,
    };
    record.config_hash == target.desired.config_hash() && record.profile == target.profile && is_image
}

/// Return the staged generation if it is the desired one, with the image of this digest. Otherwise discard
/// it.
fn keep_or_unstage(
    root: &Root,
    os: &mut dyn Sysroot,
    waits: Option<PendingGeneration>,
    target: UpdateTarget<'_>,
    digest: Option<&str>,
) -> Result<Option<Box<PendingGeneration>>, TransactionError> {
    match waits {
        Some(pending) if is_same(&pending, target, digest) => Ok(Some(Box::new(pending))),
        Some(pending) => unstage_locked(root, os, &pending).map(|()| None),
        None => Ok(None),
    }
}

/// Discard a staged generation. The pending record goes first: without it, the deployment is never
/// finalized.
fn unstage_locked(
    root: &Root,
    os: &mut dyn Sysroot,
    pending: &PendingGeneration,
) -> Result<(), TransactionError> {
    pending::remove(root)?;
    Ok(os.unstage(&pending.staged.deployment.id())?)
}

/// Discard a staged generation that is no longer desired.
pub fn unstage(os: &mut dyn Sysroot, pending: &PendingGeneration) -> Result<(), TransactionError> {
    let root = Root::open(std::path::Path::new("/"))?;
    let _lock = HostLock::take(&root)?;
    unstage_locked(&root, os, pending)
}

/// Discard the generation that was staged in this boot, because the current config is the desired one.
/// Opens no sysroot session if nothing is staged: a session would lock out other programs.
pub fn unstage_leftover(booted: &BootedDeployment, open: SysrootOpener<'_>) -> Result<(), TransactionError> {
    let root = Root::open(std::path::Path::new("/"))?;
    let _lock = HostLock::take(&root)?;
    let Some(found) = observe_pending(&root, booted, &boot::boot_id())? else { return Ok(()) };
    if found.outcome != PendingOutcome::AwaitsReboot {
        return Ok(());
    }
    let mut os = open(SysrootAccess::Stage)?;
    match staged_pending(&root, &mut *os, booted, Some(&found))? {
        Some(pending) => unstage_locked(&root, &mut *os, &pending),
        None => Ok(()),
    }
}

fn needs_reboot(draft: &DeploymentPlan, target: UpdateTarget<'_>) -> bool {
    let is_deployed_anew = !draft.is_same_os() || target.always_reboots() || draft.kernel_arguments_change;
    is_deployed_anew || draft.plan.disruption.reboots()
}

/// Apply a live update to the running system, as a journaled change.
fn apply_live(
    root: &Root,
    services: &dyn ServiceControl,
    draft: DeploymentPlan,
    target: UpdateTarget<'_>,
    boot_id: &str,
) -> Result<UpdateOutcome, TransactionError> {
    // During a first boot, the services are not started yet, and a job of a unit ordered after ours would
    // never finish.
    let actions = match target.purpose {
        UpdatePurpose::FirstBoot => Vec::new(),
        _ => service_actions::service_actions_of(&draft.plan.disruption)?,
    };
    let bound = deployment_record(&draft.base, &draft, None, target);
    let decided = DecidedChange::of(root, &draft.current, target.desired, draft.plan, Some(bound), None)?;
    apply::apply(root, services, JournaledChange { actions: &actions, ..decided.change(boot_id) })?;
    let DecidedChange { plan, generation, .. } = decided;
    Ok(UpdateOutcome::Live { plan, generation })
}
