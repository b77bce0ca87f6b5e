//! Update of the running host: a live update if no change needs a reboot, or else a staged update, whose
//! deployment receives its configuration at shutdown.

pub(crate) mod interrupted_request;

use super::live_update::LiveUpdate;
use super::{clean_up, extensions, stage};
use crate::core::plan::Plan;
use crate::core::plan::remaining_work::RemainingWork;
use crate::core::state::blocked::BlockedTarget;
use crate::core::state::booted_state::PendingOutcome;
use crate::core::state::pending::PendingGeneration;
use crate::core::values::causes::chain;
use crate::host::{LockedHost, LockedRoot};
use crate::os::protocol::SysrootAccess;
use crate::os::{ImportedCommit, OsError, Sysroot};
use crate::transaction::engine::policy_labels;
use crate::transaction::plan::deployment_plan::{DeploymentPlan, plan_deployment, unchanged_generation};
use crate::transaction::plan::etc_merge;
use crate::transaction::plan::target::{UpdateProgress, UpdatePurpose, UpdateTarget};
use crate::transaction::state::{
    blocked, boot_check_time, interrupted, objects, pending, rpm_ostree_request,
};
use crate::transaction::update::error::UpdateError;
use crate::transaction::{SysrootOpener, TransactionError};

/// Remaining work of an update, with its plan.
pub type UpdateWork<'a> = RemainingWork<LiveUpdate<'a>, StagedUpdate>;

/// Update whose deployment is staged and locked.
#[derive(Debug)]
pub struct StagedUpdate {
    /// Plan of the staged generation; `None` if an earlier command staged it.
    pub plan: Option<Plan>,
    pub pending: Box<PendingGeneration>,
}

/// Do all work of an update that does not disrupt workloads: plan, import, stage. The result tells what
/// remains: nothing, [`LiveUpdate::apply`], or [`stage::unlock()`] and a reboot. A repeated call reuses the results.
pub fn prepare<'a>(
    os: &mut dyn Sysroot,
    host: &LockedHost<'_>,
    target: UpdateTarget<'a>,
    progress: &mut dyn FnMut(UpdateProgress),
) -> Result<UpdateWork<'a>, TransactionError> {
    interrupted::recover_first(host)?;
    extensions::remove(host)?;
    objects::set_unreadable_manifest_aside(host)?;
    let found = observe_pending(host)?;
    let is_booted = found.as_ref().is_some_and(|found| found.is_unconfirmed_for(target));
    ensure_allowed(host, found.as_ref(), target)?;
    let mut draft = plan_deployment(os, target)?;
    etc_merge::predict_merge(os, target, &mut draft)?;
    draft.ensure_unobstructed()?;
    let mut waits = match &found {
        // The desired generation is booted already, so a staged deployment of ours is a leftover.
        Some(_) if is_booted => stage::ensure_none_staged(os, host).map(|()| None)?,
        found => staged_pending(host, os, found.as_ref())?,
    };
    let supersedes = waits.is_some();
    if os.layers_packages() && !draft.is_same_os() {
        // rpm-ostreed stages each image that it imports, and so replaces the staged deployment.
        if is_booted {
            ensure_confirmed(host, found.as_ref())?;
        }
        if let Some(pending) = keep_or_unstage(host, os, waits.take(), target, draft.digest())? {
            return Ok(RemainingWork::Reboot(StagedUpdate { plan: None, pending }));
        }
    }
    let imported = match import(host, os, &mut draft, target, progress) {
        Ok(imported) => imported,
        Err(error) => return Err(import_failed(host, os, target, error)),
    };
    let digest = imported.as_ref().and_then(|imported| imported.manifest_digest.as_deref());
    ensure_not_rejected(host, os, target, imported.as_ref())?;
    if let Some(pending) = keep_or_unstage(host, os, waits, target, digest)? {
        return Ok(RemainingWork::Reboot(StagedUpdate { plan: None, pending }));
    }
    if !target.always_reboots() && unchanged_generation(&draft, target).is_some() {
        return Ok(RemainingWork::Nothing);
    }
    if !needs_reboot(&draft, target) {
        let steps = draft.plan.tree.as_ref().map_or(&[][..], |tree| &tree.steps.steps);
        let labels = policy_labels::of_steps(os, host.as_root(), steps)?;
        return Ok(RemainingWork::Live(LiveUpdate { draft: Box::new(draft), target, labels }));
    }
    if is_booted {
        replace_unconfirmed(host, found.as_ref())
            .inspect_err(|_| discard_imported(host, os, imported.as_ref()))?;
    }
    let pending = stage_checked(host, os, &draft, imported.as_ref(), target, progress)
        .inspect_err(|_| discard_imported(host, os, imported.as_ref()))?;
    rpm_ostree_request::remove_request(host)?;
    if supersedes || imported.is_some() {
        // The image and the objects of a deployment staged or refused before would stay until an update boots.
        clean_up::clean_up(os, host);
    }
    Ok(RemainingWork::Reboot(StagedUpdate { plan: Some(draft.plan), pending: Box::new(pending) }))
}

/// Leave nothing of a failed import behind, and block a target that rpm-ostreed rejected.
fn import_failed(
    host: &LockedHost<'_>,
    os: &mut dyn Sysroot,
    target: UpdateTarget<'_>,
    error: TransactionError,
) -> TransactionError {
    match &error {
        TransactionError::Os(OsError::NoSpace { .. }) => clean_up::clean_up(os, host),
        TransactionError::Os(OsError::Rejected { what, digest, source }) => {
            let reason = format!("rpm-ostreed rejects {what}: {source}");
            if let Err(error) = blocked::block_rejected(host, target.desired, digest.clone(), &reason) {
                log::warn!("cannot block {}: {}", target.desired.object.name, chain(&error));
            }
        }
        _ => {}
    }
    end_request(host, os);
    error
}

/// Remove the request to rpm-ostreed: its result is known. It stays while its deployment is still staged, which the next
/// command discards by it.
pub(crate) fn end_request(host: &LockedHost<'_>, os: &mut dyn Sysroot) {
    let is_over = matches!(stage::staged_deployment(os), Ok(None));
    if is_over && let Err(error) = rpm_ostree_request::remove_request(host) {
        log::warn!("{}", chain(&error));
    }
}

/// Import the image or packages that the plan needs, with the extensions repository in place.
fn import(
    host: &LockedHost<'_>,
    os: &mut dyn Sysroot,
    draft: &mut DeploymentPlan,
    target: UpdateTarget<'_>,
    progress: &mut dyn FnMut(UpdateProgress),
) -> Result<Option<ImportedCommit>, TransactionError> {
    // Before the extensions, which need the space.
    if os.layers_packages() && !draft.is_same_os() && rpm_ostree_request::is_open(host)? {
        interrupted_request::remove_unchecked_images(os)?;
    }
    let _extensions = match draft.extensions_image(target, &*os) {
        Some(image) => {
            progress(UpdateProgress::Unpacking);
            let repository = extensions::provide(host, os, image)?;
            draft.packages.leave_out_of_newer_releases(extensions::is_unpacked);
            Some(repository)
        }
        None => None,
    };
    if os.layers_packages() && !draft.is_same_os() {
        rpm_ostree_request::write_request(host, &draft.import_request())?;
    }
    let imported = draft.import(os, progress)?;
    // Otherwise the staged deployment is told by the request until this agent has staged its own.
    if imported.as_ref().is_none_or(|imported| imported.staged.is_none()) {
        rpm_ostree_request::remove_request(host)?;
    }
    Ok(imported)
}

/// Discard the deployment that rpm-ostreed staged during the import. The image stays: it is checked.
fn discard_imported(host: &LockedHost<'_>, os: &mut dyn Sysroot, imported: Option<&ImportedCommit>) {
    if let Some(made) = imported.and_then(|imported| imported.staged.as_ref()) {
        stage::discard(os, made);
        end_request(host, os);
    }
}

fn stage_checked(
    host: &LockedHost<'_>,
    os: &mut dyn Sysroot,
    draft: &DeploymentPlan,
    imported: Option<&ImportedCommit>,
    target: UpdateTarget<'_>,
    progress: &mut dyn FnMut(UpdateProgress),
) -> Result<PendingGeneration, TransactionError> {
    etc_merge::ensure_mergeable(os, target, draft, imported)?;
    stage::stage_generation(os, host, draft, imported, target, progress)
}

/// Pending generation and its outcome in this boot.
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

/// Load the pending generation and its outcome. A generation that failed to boot is blocked, and its record
/// removed.
fn observe_pending(host: &LockedHost<'_>) -> Result<Option<FoundPending>, TransactionError> {
    match pending::observe(host)? {
        None => Ok(None),
        Some((pending, PendingOutcome::RolledBack(reason))) => {
            pending::block(host, &pending, &reason)?;
            Ok(None)
        }
        Some((pending, outcome)) => Ok(Some(FoundPending { pending, outcome })),
    }
}

/// Fail if the target is blocked, or has to wait for a boot check. A rollback by an operator is always
/// allowed.
fn ensure_allowed(
    host: &LockedHost<'_>,
    found: Option<&FoundPending>,
    target: UpdateTarget<'_>,
) -> Result<(), TransactionError> {
    if target.redeployed().is_some() {
        return Ok(());
    }
    if !found.is_some_and(|found| found.is_unconfirmed_for(target)) {
        ensure_confirmed(host, found)?;
    }
    ensure_not_blocked(host, target)
}

/// Fail while the booted generation is unconfirmed: a new deployment would replace the rollback deployment
/// that the generation may still need.
fn ensure_confirmed(host: &LockedHost<'_>, found: Option<&FoundPending>) -> Result<(), TransactionError> {
    match found {
        Some(FoundPending { pending, outcome: PendingOutcome::Booted | PendingOutcome::RollBack(_) }) => {
            match boot_check_time::time_left(host.running) {
                Some(left) => {
                    let (generation, seconds) = (pending.generation().to_owned(), left.as_secs());
                    Err(UpdateError::Unconfirmed { generation, seconds }.into())
                }
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

fn ensure_not_blocked(host: &LockedRoot<'_>, target: UpdateTarget<'_>) -> Result<(), TransactionError> {
    let is_forced = matches!(target.purpose, UpdatePurpose::Forced);
    match blocked::load_or_set_aside(host)? {
        Some(blocked) if target.is_blocked_by(&blocked) && !is_forced => {
            Err(UpdateError::Blocked(Box::new(blocked)).into())
        }
        // The image that the tag names now may be the rejected one, which the import shows.
        Some(blocked) if blocked.rejected_image().is_some() && target.has_unpinned_image() => Ok(()),
        // Another config is desired, so the block no longer applies.
        Some(BlockedTarget { .. }) => Ok(blocked::release(host)?),
        None => Ok(()),
    }
}

/// Fail if the imported image was rejected before: by another path, nothing would check it.
fn ensure_not_rejected(
    host: &LockedHost<'_>,
    os: &mut dyn Sysroot,
    target: UpdateTarget<'_>,
    imported: Option<&ImportedCommit>,
) -> Result<(), TransactionError> {
    // A rollback leaves the blocked target alone.
    let Some(imported) = imported.filter(|_| target.redeployed().is_none()) else { return Ok(()) };
    let blocked = blocked::load_or_set_aside(host)?;
    let Some(blocked) = blocked.filter(|blocked| blocked.rejected_image().is_some()) else { return Ok(()) };
    let is_rejected = blocked.rejected_image() == imported.manifest_digest.as_deref();
    let is_forced = matches!(target.purpose, UpdatePurpose::Forced);
    // rpm-ostreed has checked the deployment that it has staged.
    if is_rejected && !is_forced && imported.staged.is_none() {
        clean_up::clean_up(os, host);
        return Err(UpdateError::Blocked(Box::new(blocked)).into());
    }
    Ok(blocked::release(host)?)
}

/// Return the generation that was staged in this boot and still is. Removes a pending record of another
/// boot, and leftovers of ours in the sysroot.
fn staged_pending(
    host: &LockedHost<'_>,
    os: &mut dyn Sysroot,
    found: Option<&FoundPending>,
) -> Result<Option<PendingGeneration>, TransactionError> {
    if let (Some(FoundPending { pending, outcome: PendingOutcome::AwaitsReboot }), Some(staged)) =
        (found, stage::staged_deployment(os)?)
        && stage::is_pending(&staged, pending)
    {
        return Ok(Some(pending.clone()));
    }
    stage::ensure_none_staged(os, host)?;
    if let Some(FoundPending { pending, .. }) = found {
        log::info!(
            "dropping the pending generation {} of {}",
            pending.generation(),
            pending.staged.record.config
        );
        pending::remove(host.as_root())?;
    }
    Ok(None)
}

/// Remove the pending record of an unconfirmed generation whose boot check timed out, so that an update can
/// replace it.
fn replace_unconfirmed(host: &LockedHost<'_>, found: Option<&FoundPending>) -> Result<(), TransactionError> {
    ensure_confirmed(host, found)?;
    Ok(pending::remove(host.as_root())?)
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
    host: &LockedHost<'_>,
    os: &mut dyn Sysroot,
    waits: Option<PendingGeneration>,
    target: UpdateTarget<'_>,
    digest: Option<&str>,
) -> Result<Option<Box<PendingGeneration>>, TransactionError> {
    match waits {
        Some(pending) if is_same(&pending, target, digest) => Ok(Some(Box::new(pending))),
        Some(pending) => stage::unstage(os, host, &pending).map(|()| None),
        None => Ok(None),
    }
}

/// Discard the generation that was staged in this boot, because the current config is the desired one.
/// Opens no sysroot session if nothing is staged: a session would lock out other programs.
pub fn unstage_leftover(host: &LockedHost<'_>, open: SysrootOpener<'_>) -> Result<(), TransactionError> {
    let Some(found) = observe_pending(host)? else { return Ok(()) };
    if found.outcome != PendingOutcome::AwaitsReboot {
        return Ok(());
    }
    let mut os = open(SysrootAccess::Stage)?;
    if let Some(pending) = staged_pending(host, &mut *os, Some(&found))? {
        stage::unstage(&mut *os, host, &pending)?;
        clean_up::clean_up(&mut *os, host);
    }
    Ok(())
}

fn needs_reboot(draft: &DeploymentPlan, target: UpdateTarget<'_>) -> bool {
    let is_deployed_anew = !draft.is_same_os() || target.always_reboots() || draft.kernel_arguments_change;
    is_deployed_anew || draft.plan.disruption.reboots()
}
