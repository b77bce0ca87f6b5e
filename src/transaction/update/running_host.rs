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
use crate::os::protocol::Access;
use crate::os::{Imported, Sysroot};
use crate::transaction::state::boot_check_time;
use crate::transaction::state::interrupted;

use super::offline_sysroot::bound;
use super::{extensions, stage};
use crate::transaction::engine::apply;
use crate::transaction::engine::apply::Change;
use crate::transaction::plan::deployment_plan::settled;
use crate::transaction::plan::deployment_plan::{Draft, draft};
use crate::transaction::plan::etc_merge;
use crate::transaction::plan::target::{Errand, Stage, Target};
use crate::transaction::state::blocked::hold;
use crate::transaction::state::current::Current;
use crate::transaction::state::decided_change::Decided;
use crate::transaction::state::{blocked, pending, rpm_ostree_request};
use crate::transaction::{Sessions, TransactionError};

/// What came of it.
#[derive(Debug)]
pub enum Outcome {
    /// The host is what the configuration says already.
    Nothing {
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
pub enum Prepared {
    /// Nothing: the host is what the configuration says already.
    Nothing {
        /// Its generation.
        generation: String,
    },
    /// It can become so at once.
    Ready {
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
    target: Target<'_>,
    progress: &mut dyn FnMut(Stage),
) -> Result<Outcome, TransactionError> {
    let root = Root::open(std::path::Path::new("/"))?;
    let _lock = HostLock::take(&root)?;
    let boot_id = boot::boot_id();
    match decide(&root, os, booted, target, &boot_id, progress)? {
        Decision::Nothing { generation } => Ok(Outcome::Nothing { generation }),
        Decision::Ready(draft) => at_once(&root, services, *draft, target, &boot_id),
        Decision::Staged(plan, pending) => Ok(Outcome::Staged { plan: plan.map(|plan| *plan), pending }),
    }
}

/// Does everything that the workload does not notice: plans, brings in, stages. [`apply`] does the rest, and finds this
/// done.
pub fn prepare(
    os: &mut dyn Sysroot,
    booted: &BootedDeployment,
    target: Target<'_>,
    progress: &mut dyn FnMut(Stage),
) -> Result<Prepared, TransactionError> {
    let root = Root::open(std::path::Path::new("/"))?;
    let _lock = HostLock::take(&root)?;
    Ok(match decide(&root, os, booted, target, &boot::boot_id(), progress)? {
        Decision::Nothing { generation } => Prepared::Nothing { generation },
        Decision::Ready(draft) => Prepared::Ready { plan: draft.plan },
        Decision::Staged(plan, pending) => Prepared::Staged { plan: plan.map(|plan| *plan), pending },
    })
}

/// How the host becomes what is wanted.
enum Decision {
    Nothing { generation: String },
    Ready(Box<Draft>),
    Staged(Option<Box<Plan>>, Box<PendingGeneration>),
}

/// Decides, and stages where a reboot is needed. The caller holds the lock.
fn decide(
    root: &Root,
    os: &mut dyn Sysroot,
    booted: &BootedDeployment,
    target: Target<'_>,
    boot_id: &str,
    progress: &mut dyn FnMut(Stage),
) -> Result<Decision, TransactionError> {
    interrupted::settle_first(root, boot_id)?;
    extensions::take_back(root)?;
    let found = look(root, booted, boot_id)?;
    let runs = found.as_ref().is_some_and(|found| found.is_on_probation_for(target));
    ensure_may_be(root, found.as_ref(), target)?;
    let mut draft = draft(os, target)?;
    etc_merge::foresee(os, target, &mut draft)?;
    draft.ensure_unhindered()?;
    let mut waits = match &found {
        // It runs already: nothing of it is staged.
        Some(_) if runs => stage::ensure_none_staged(os, root, booted).map(|()| None)?,
        found => waiting(root, os, booted, found.as_ref())?,
    };
    if os.layers_packages() && !draft.is_same_os() {
        // Whoever brings it in stages as well, in place of what is staged.
        if runs {
            ensure_judged(root, found.as_ref())?;
        }
        if let Some(pending) = keep(root, os, waits.take(), target, draft.digest())? {
            return Ok(Decision::Staged(None, pending));
        }
    }
    let imported = bring_in(root, os, &mut draft, target, progress)?;
    let digest = imported.as_ref().and_then(|imported| imported.manifest_digest.as_deref());
    if let Some(pending) = keep(root, os, waits, target, digest)? {
        return Ok(Decision::Staged(None, pending));
    }
    if !target.reboots_anyway()
        && let Some(generation) = settled(&draft, target)
    {
        return Ok(Decision::Nothing { generation });
    }
    if !reboots(&draft, target) {
        return Ok(Decision::Ready(Box::new(draft)));
    }
    if runs {
        give_way(root, found.as_ref()).inspect_err(|_| discard(os, imported.as_ref()))?;
    }
    let pending = stage_anew(root, os, &draft, imported.as_ref(), target, progress)
        .inspect_err(|_| discard(os, imported.as_ref()))?;
    Ok(Decision::Staged(Some(Box::new(draft.plan)), Box::new(pending)))
}

/// Brings the OS in where it is another one.
fn bring_in(
    root: &Root,
    os: &mut dyn Sysroot,
    draft: &mut Draft,
    target: Target<'_>,
    progress: &mut dyn FnMut(Stage),
) -> Result<Option<Imported>, TransactionError> {
    if os.layers_packages() && !draft.is_same_os() {
        rpm_ostree_request::note(root, &draft.wanted())?;
    }
    let _lent = match draft.extensions_image(target, &*os) {
        Some(image) => {
            progress(Stage::Unpacking);
            Some(extensions::lend(root, os, image)?)
        }
        None => None,
    };
    draft.import(os, progress)
}

/// Takes back what was staged with what was brought in.
fn discard(os: &mut dyn Sysroot, imported: Option<&Imported>) {
    if let Some(made) = imported.and_then(|imported| imported.staged.as_ref()) {
        stage::discard(os, made);
    }
}

fn stage_anew(
    root: &Root,
    os: &mut dyn Sysroot,
    draft: &Draft,
    imported: Option<&Imported>,
    target: Target<'_>,
    progress: &mut dyn FnMut(Stage),
) -> Result<PendingGeneration, TransactionError> {
    etc_merge::ensure_mergeable(os, target, draft, imported)?;
    stage::stage(os, root, draft, imported, target, progress)
}

/// What is pending, and what is to become of it.
struct Found {
    pending: PendingGeneration,
    fate: PendingOutcome,
}

impl Found {
    /// Whether what is wanted runs already, and is still to be judged.
    fn is_on_probation_for(&self, target: Target<'_>) -> bool {
        let is_wanted = self.pending.intent.record.config_hash == target.desired.hash();
        self.fate == PendingOutcome::Booted && is_wanted && target.again().is_none()
    }
}

/// Finds it. What was left is held before anything else is wanted.
fn look(root: &Root, booted: &BootedDeployment, boot_id: &str) -> Result<Option<Found>, TransactionError> {
    let Some(pending) = pending::load(root)? else { return Ok(None) };
    let record = Current::load_record(root)?;
    match booted_state::fate(booted.seen(record.as_ref(), Some(&pending)), boot_id, None) {
        PendingOutcome::RolledBack(reason) => {
            hold(root, &pending.intent.record, &reason)?;
            pending::close(root)?;
            Ok(None)
        }
        fate => Ok(Some(Found { pending, fate })),
    }
}

/// Whether the host may become this now. Whoever goes back by hand has said so.
fn ensure_may_be(root: &Root, found: Option<&Found>, target: Target<'_>) -> Result<(), TransactionError> {
    if target.again().is_some() {
        return Ok(());
    }
    if !found.is_some_and(|found| found.is_on_probation_for(target)) {
        ensure_judged(root, found)?;
    }
    ensure_not_held(root, target)
}

/// What needs a reboot waits until what runs was judged: the way back from that is the deployment before it, which would
/// be lost.
fn ensure_judged(root: &Root, found: Option<&Found>) -> Result<(), TransactionError> {
    match found {
        Some(Found { pending, fate: PendingOutcome::Booted | PendingOutcome::RollBack(_) }) => {
            match boot_check_time::time_left(root) {
                Some(left) => {
                    let (generation, seconds) = (pending.generation().to_owned(), left.as_secs());
                    Err(TransactionError::OnProbation { generation, seconds })
                }
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

fn ensure_not_held(root: &Root, target: Target<'_>) -> Result<(), TransactionError> {
    let is_forced = matches!(target.errand, Errand::Forced);
    match blocked::load(root)? {
        Some(held) if held.is_about(&target.desired.hash()) && !is_forced => {
            Err(TransactionError::Held(Box::new(held)))
        }
        // Another configuration is wanted: what was held is history.
        Some(BlockedTarget { .. }) => Ok(blocked::release(root)?),
        None => Ok(()),
    }
}

/// The generation that is staged in this boot and not yet lost. What another boot left behind is
/// settled first.
fn waiting(
    root: &Root,
    os: &mut dyn Sysroot,
    booted: &BootedDeployment,
    found: Option<&Found>,
) -> Result<Option<PendingGeneration>, TransactionError> {
    if let (Some(Found { pending, fate: PendingOutcome::AwaitsReboot }), Some(staged)) =
        (found, stage::staged(os)?)
        && stage::is_pending(&staged, pending)
    {
        return Ok(Some(pending.clone()));
    }
    stage::ensure_none_staged(os, root, booted)?;
    if let Some(Found { fate, .. }) = found {
        log::info!(fate:? = fate; "what was pending in {PENDING} is replaced");
        pending::close(root)?;
    }
    Ok(None)
}

/// What is on probation gives way, where it had its time.
fn give_way(root: &Root, found: Option<&Found>) -> Result<(), TransactionError> {
    ensure_judged(root, found)?;
    Ok(pending::close(root)?)
}

fn is_same(pending: &PendingGeneration, target: Target<'_>, imported: Option<&str>) -> bool {
    let (record, deployment) = (&pending.intent.record, &pending.intent.deployment);
    let is_image = match (target.again(), imported) {
        (Some(again), _) => again.id.commit == deployment.commit,
        (None, Some(digest)) => deployment.image_digest.as_deref() == Some(digest),
        (None, None) => deployment.commit == pending.intent.base.commit,
    };
    record.config_hash == target.desired.hash() && record.profile == target.profile && is_image
}

/// What waits already, where it is what is wanted, with the image of this digest. Otherwise it is taken back.
fn keep(
    root: &Root,
    os: &mut dyn Sysroot,
    waits: Option<PendingGeneration>,
    target: Target<'_>,
    digest: Option<&str>,
) -> Result<Option<Box<PendingGeneration>>, TransactionError> {
    match waits {
        Some(pending) if is_same(&pending, target, digest) => Ok(Some(Box::new(pending))),
        Some(pending) => abandon(root, os, &pending).map(|()| None),
        None => Ok(None),
    }
}

/// Takes back what is staged. It is forgotten first: what nobody speaks of is never bound.
fn abandon(root: &Root, os: &mut dyn Sysroot, pending: &PendingGeneration) -> Result<(), TransactionError> {
    pending::close(root)?;
    Ok(os.unstage(&pending.intent.deployment.id())?)
}

/// Takes back what was staged and is not wanted after all.
pub fn withdraw(os: &mut dyn Sysroot, pending: &PendingGeneration) -> Result<(), TransactionError> {
    let root = Root::open(std::path::Path::new("/"))?;
    let _lock = HostLock::take(&root)?;
    abandon(&root, os, pending)
}

/// Takes back whatever we staged in this boot: what runs is what is wanted. Where that is nothing, nobody is kept from
/// the sysroot.
pub fn clear(booted: &BootedDeployment, open: Sessions<'_>) -> Result<(), TransactionError> {
    let root = Root::open(std::path::Path::new("/"))?;
    let _lock = HostLock::take(&root)?;
    let Some(found) = look(&root, booted, &boot::boot_id())? else { return Ok(()) };
    if found.fate != PendingOutcome::AwaitsReboot {
        return Ok(());
    }
    let mut os = open(Access::Stage)?;
    match waiting(&root, &mut *os, booted, Some(&found))? {
        Some(pending) => abandon(&root, &mut *os, &pending),
        None => Ok(()),
    }
}

fn reboots(draft: &Draft, target: Target<'_>) -> bool {
    let is_deployed_anew = !draft.is_same_os() || target.reboots_anyway() || draft.kernel_arguments_change;
    is_deployed_anew || draft.plan.disruption.reboots()
}

/// Changes the tree that runs, in a journaled transaction.
fn at_once(
    root: &Root,
    services: &dyn ServiceControl,
    draft: Draft,
    target: Target<'_>,
    boot_id: &str,
) -> Result<Outcome, TransactionError> {
    // On a first boot nothing is started yet that would have to take it up; what waits for us would wait for ever.
    let actions = match target.errand {
        Errand::FirstBoot => Vec::new(),
        _ => service_actions::of(&draft.plan.disruption)?,
    };
    let bound = bound(&draft.base, &draft, None, target);
    let decided = Decided::of(root, &draft.current, target.desired, draft.plan, Some(bound), None)?;
    apply::apply(root, services, Change { actions: &actions, ..decided.change(boot_id) })?;
    let Decided { plan, generation, .. } = decided;
    Ok(Outcome::Live { plan, generation })
}
