//! A configuration on the host that runs: at once where nothing has to be rebooted for it, else as a
//! new deployment that is staged, and bound to the configuration while the host shuts down.

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

/// What came of it.
#[derive(Debug)]
pub enum UpdateOutcome {
    /// The host is what the configuration says already.
    Unchanged {
        /// Its generation.
        generation: String,
    },
    /// It became so at once.
    Live {
        /// The plan that was carried out.
        plan: Plan,
        /// Its generation.
        generation: String,
    },
    /// It becomes so with the next reboot, once that is armed.
    Staged {
        /// The plan that will be carried out; `None` where it had been staged before.
        plan: Option<Plan>,
        /// What is staged.
        pending: Box<PendingGeneration>,
    },
}

/// What is left to be done, after everything slow.
#[derive(Debug)]
pub enum UpdatePreparation {
    /// Nothing: the host is what the configuration says already.
    Unchanged {
        /// Its generation.
        generation: String,
    },
    /// It can become so at once.
    Live {
        /// The plan that will be carried out.
        plan: Plan,
    },
    /// It becomes so with the next reboot, once that is armed.
    Staged {
        /// The plan that will be carried out; `None` where it had been staged before.
        plan: Option<Plan>,
        /// What is staged.
        pending: Box<PendingGeneration>,
    },
}

/// Makes the running host what the target says, or stages what becomes so.
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

/// Does everything that the workload does not notice: plans, brings in, stages. [`apply`] does the rest, and finds this
/// done.
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

/// How the host becomes what is wanted.
enum Decision {
    Nothing { generation: String },
    Ready(Box<DeploymentPlan>),
    Staged(Option<Box<Plan>>, Box<PendingGeneration>),
}

/// Decides, and stages where a reboot is needed. The caller holds the lock.
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
    draft.ensure_unhindered()?;
    let mut waits = match &found {
        // It runs already: nothing of it is staged.
        Some(_) if runs => stage::ensure_none_staged(os, root, booted).map(|()| None)?,
        found => staged_pending(root, os, booted, found.as_ref())?,
    };
    if os.layers_packages() && !draft.is_same_os() {
        // Whoever brings it in stages as well, in place of what is staged.
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
    if !target.reboots_anyway()
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

/// Brings the OS in where it is another one.
fn import(
    root: &Root,
    os: &mut dyn Sysroot,
    draft: &mut DeploymentPlan,
    target: UpdateTarget<'_>,
    progress: &mut dyn FnMut(UpdateProgress),
) -> Result<Option<ImportedCommit>, TransactionError> {
    if os.layers_packages() && !draft.is_same_os() {
        rpm_ostree_request::write_request(root, &draft.wanted())?;
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

/// Takes back what was staged with what was brought in.
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

/// What is pending, and what is to become of it.
struct Found {
    pending: PendingGeneration,
    fate: PendingOutcome,
}

impl Found {
    /// Whether what is wanted runs already, and is still to be judged.
    fn is_unconfirmed_for(&self, target: UpdateTarget<'_>) -> bool {
        let is_wanted = self.pending.intent.record.config_hash == target.desired.hash();
        self.fate == PendingOutcome::Booted && is_wanted && target.again().is_none()
    }
}

/// Finds it. What was left is held before anything else is wanted.
fn observe_pending(
    root: &Root,
    booted: &BootedDeployment,
    boot_id: &str,
) -> Result<Option<Found>, TransactionError> {
    let Some(pending) = pending::load(root)? else { return Ok(None) };
    let record = CurrentState::load_record(root)?;
    match booted_state::pending_outcome(booted.seen(record.as_ref(), Some(&pending)), boot_id, None) {
        PendingOutcome::RolledBack(reason) => {
            block(root, &pending.intent.record, &reason)?;
            pending::remove(root)?;
            Ok(None)
        }
        fate => Ok(Some(Found { pending, fate })),
    }
}

/// Whether the host may become this now. Whoever goes back by hand has said so.
fn ensure_allowed(
    root: &Root,
    found: Option<&Found>,
    target: UpdateTarget<'_>,
) -> Result<(), TransactionError> {
    if target.again().is_some() {
        return Ok(());
    }
    if !found.is_some_and(|found| found.is_unconfirmed_for(target)) {
        ensure_confirmed(root, found)?;
    }
    ensure_not_blocked(root, target)
}

/// What needs a reboot waits until what runs was judged: the way back from that is the deployment before it, which would
/// be lost.
fn ensure_confirmed(root: &Root, found: Option<&Found>) -> Result<(), TransactionError> {
    match found {
        Some(Found { pending, fate: PendingOutcome::Booted | PendingOutcome::RollBack(_) }) => {
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
    let is_forced = matches!(target.errand, UpdatePurpose::Forced);
    match blocked::load(root)? {
        Some(held) if held.blocks(&target.desired.hash()) && !is_forced => {
            Err(TransactionError::Blocked(Box::new(held)))
        }
        // Another configuration is wanted: what was held is history.
        Some(BlockedTarget { .. }) => Ok(blocked::release(root)?),
        None => Ok(()),
    }
}

/// The generation that is staged in this boot and not yet lost. What another boot left behind is
/// settled first.
fn staged_pending(
    root: &Root,
    os: &mut dyn Sysroot,
    booted: &BootedDeployment,
    found: Option<&Found>,
) -> Result<Option<PendingGeneration>, TransactionError> {
    if let (Some(Found { pending, fate: PendingOutcome::AwaitsReboot }), Some(staged)) =
        (found, stage::staged_deployment(os)?)
        && stage::is_pending(&staged, pending)
    {
        return Ok(Some(pending.clone()));
    }
    stage::ensure_none_staged(os, root, booted)?;
    if let Some(Found { fate, .. }) = found {
        log::info!(fate:? = fate; "what was pending in {PENDING} is replaced");
        pending::remove(root)?;
    }
    Ok(None)
}

/// What is on probation gives way, where it had its time.
fn replace_unconfirmed(root: &Root, found: Option<&Found>) -> Result<(), TransactionError> {
    ensure_confirmed(root, found)?;
    Ok(pending::remove(root)?)
}

fn is_same(pending: &PendingGeneration, target: UpdateTarget<'_>, imported: Option<&str>) -> bool {
    let (record, deployment) = (&pending.intent.record, &pending.intent.deployment);
    let is_image = match (target.again(), imported) {
        (Some(again), _) => again.id.commit == deployment.commit,
        (None, Some(digest)) => deployment.image_digest.as_deref() == Some(digest),
        (None, None) => deployment.commit == pending.intent.base.commit,
    };
    record.config_hash == target.desired.hash() && record.profile == target.profile && is_image
}

/// What waits already, where it is what is wanted, with the image of this digest. Otherwise it is taken back.
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

/// Takes back what is staged. It is forgotten first: what nobody speaks of is never bound.
fn unstage_locked(
    root: &Root,
    os: &mut dyn Sysroot,
    pending: &PendingGeneration,
) -> Result<(), TransactionError> {
    pending::remove(root)?;
    Ok(os.unstage(&pending.intent.deployment.id())?)
}

/// Takes back what was staged and is not wanted after all.
pub fn unstage(os: &mut dyn Sysroot, pending: &PendingGeneration) -> Result<(), TransactionError> {
    let root = Root::open(std::path::Path::new("/"))?;
    let _lock = HostLock::take(&root)?;
    unstage_locked(&root, os, pending)
}

/// Takes back whatever we staged in this boot: what runs is what is wanted. Where that is nothing, nobody is kept from
/// the sysroot.
pub fn unstage_leftover(booted: &BootedDeployment, open: SysrootOpener<'_>) -> Result<(), TransactionError> {
    let root = Root::open(std::path::Path::new("/"))?;
    let _lock = HostLock::take(&root)?;
    let Some(found) = observe_pending(&root, booted, &boot::boot_id())? else { return Ok(()) };
    if found.fate != PendingOutcome::AwaitsReboot {
        return Ok(());
    }
    let mut os = open(SysrootAccess::Stage)?;
    match staged_pending(&root, &mut *os, booted, Some(&found))? {
        Some(pending) => unstage_locked(&root, &mut *os, &pending),
        None => Ok(()),
    }
}

fn needs_reboot(draft: &DeploymentPlan, target: UpdateTarget<'_>) -> bool {
    let is_deployed_anew = !draft.is_same_os() || target.reboots_anyway() || draft.kernel_arguments_change;
    is_deployed_anew || draft.plan.disruption.reboots()
}

/// Changes the tree that runs, in a journaled transaction.
fn apply_live(
    root: &Root,
    services: &dyn ServiceControl,
    draft: DeploymentPlan,
    target: UpdateTarget<'_>,
    boot_id: &str,
) -> Result<UpdateOutcome, TransactionError> {
    // On a first boot nothing is started yet that would have to take it up; what waits for us would wait for ever.
    let actions = match target.errand {
        UpdatePurpose::FirstBoot => Vec::new(),
        _ => service_actions::service_actions_of(&draft.plan.disruption)?,
    };
    let bound = deployment_record(&draft.base, &draft, None, target);
    let decided = DecidedChange::of(root, &draft.current, target.desired, draft.plan, Some(bound), None)?;
    apply::apply(root, services, JournaledChange { actions: &actions, ..decided.change(boot_id) })?;
    let DecidedChange { plan, generation, .. } = decided;
    Ok(UpdateOutcome::Live { plan, generation })
}
