//! Activation service, early in boot: identify the booted deployment, recover an interrupted change, and
//! make the generation complete before other services start. Needs no network, no D-Bus and no libostree.

use std::path::Path;
use std::time::Duration;

use super::activate::{ActivationMode, ActivationOutcome, ActivationStage};
use super::{activate, carry_forward};
use crate::core::history::{HistoryEvent, HistoryNote};
use crate::core::plan::steps::PlanStep;
use crate::core::state::blocked::BlockReason;
use crate::core::state::booted_state;
use crate::core::state::booted_state::{BootedState, PendingOutcome};
use crate::core::state::journal::JournalScope;
use crate::core::state::pending::{PendingEntry, PendingGeneration};
use crate::core::state::record::GenerationRecord;
use crate::core::values::causes::chain;
use crate::core::values::identifiers::GenerationId;
use crate::core::values::names::ManagedPath;
use crate::host::facts::booted;
use crate::host::facts::booted::{BootedDeployment, SYSROOT};
use crate::host::mount_namespace::MountNamespace;
use crate::host::systemd::service_port::NoServices;
use crate::host::{LockedHost, LockedRoot, Root, RunningHost};
use crate::os::protocol::SysrootAccess;
use crate::os::{DeploymentId, Sysroot};
use crate::transaction::boot::error::BootError;
use crate::transaction::engine::apply::JournaledChange;
use crate::transaction::engine::labels::SelinuxLabels;
use crate::transaction::engine::recover::{RecoveryError, RecoveryOutcome};
use crate::transaction::engine::{apply, labels, recover};
use crate::transaction::history;
use crate::transaction::state::blocked::block;
use crate::transaction::state::current::CurrentState;
use crate::transaction::state::unconfirmed_mark::MarkState;
use crate::transaction::state::{boot_check_time, interrupted, objects, pending, unconfirmed_mark};
use crate::transaction::update::{extensions, finalize};
use crate::transaction::{SysrootOpener, TransactionError};

/// Result of the activation service, with the step that has to follow.
#[derive(Debug)]
pub enum EarlyBootOutcome {
    /// The generation is complete and activated.
    Activated {
        /// State of the booted deployment.
        state: BootedState,
        /// Result of the activation of files outside `/etc`.
        activated: ActivationOutcome,
        /// Number of paths carried forward from the deployment that booted before.
        carried: usize,
    },
    /// No configuration was ever applied to this host.
    Unmanaged,
    /// The record of the confirmed generation cannot be read, for this reason. Its files stay as they are, and it
    /// serves.
    Unreadable(String),
    /// The deployment booted without its configuration, which is now in `/etc`. The host must reboot before
    /// other services start: systemd has already read the old units.
    ConfigWritten { generation: GenerationId },
    /// The booted generation failed and must be rolled back: the deployment that it was staged on has to
    /// boot instead.
    RollBack {
        /// Pending record of the failed generation.
        pending: Box<PendingGeneration>,
        /// Reason of the rollback, stored with the blocked target.
        reason: String,
    },
}

/// Activate the booted generation, or tell which rollback or reboot is needed. `namespace` is a private
/// mount namespace, in which other deployments can be made writable.
///
/// An unconfirmed generation is activated as a whole, and the workload starts only then. A confirmed one serves
/// whatever its disk says: what cannot be put in place is a problem in the outcome.
pub fn activate_at_boot(
    host: &LockedHost<'_>,
    namespace: &MountNamespace,
) -> Result<EarlyBootOutcome, TransactionError> {
    unconfirmed_mark::forget_earlier_boot(host)?;
    let booted = &host.running.booted;
    let mark = unconfirmed_mark::mark_state(host, &booted.deployment);
    if mark == MarkState::Foreign {
        unconfirmed_mark::remove_mark(host.as_root())?;
    }
    recover_any_deployment(host, namespace)?;
    if let Err(error) = extensions::remove(host) {
        log::warn!("cannot remove the repository of the extensions: {}", chain(&error));
    }
    let found = load_or_restore_pending(host)?;
    let is_pending = found.as_ref().is_some_and(|pending| pending.is_deployed_as(&booted.deployment));
    let mode = activation_mode(mark, is_pending);
    let record = match CurrentState::load_record(host) {
        Err(error) if mode == ActivationMode::AsFarAsPossible => {
            return Ok(EarlyBootOutcome::Unreadable(chain(&error)));
        }
        record => record?,
    };
    let seen = booted.observation(record.as_ref(), found.as_ref());
    let state = booted_state::booted_state(seen);
    let most_boots = boot_check_time::max_boots(host, found.as_ref());
    match (booted_state::pending_outcome(seen, host.boot_id(), most_boots), found) {
        (PendingOutcome::WriteConfig, Some(pending)) => write_missing_config(host, &pending),
        (PendingOutcome::RollBack(reason), Some(pending)) => {
            Ok(EarlyBootOutcome::RollBack { pending: Box::new(pending), reason })
        }
        (outcome, found) => {
            if let (PendingOutcome::Booted, Some(pending)) = (outcome, found)
                && !pending.booted_in.iter().any(|boot| boot == host.boot_id())
            {
                // The attempt is recorded before activation, so that a boot that hangs or panics counts as
                // well.
                pending::append_entry(
                    host.as_root(),
                    &PendingEntry::Booted { boot_id: host.boot_id().to_owned() },
                )?;
                history::note(host, HistoryEvent::Booted, HistoryNote::of(&pending.staged.record));
            }
            let outcome = match record {
                Some(record) => activate_recorded(host, state, &record, mode)?,
                None => EarlyBootOutcome::Unmanaged,
            };
            match &outcome {
                EarlyBootOutcome::Activated { activated, .. } if !activated.awaited.is_empty() => {
                    unconfirmed_mark::await_mounts(host)?;
                }
                _ => unconfirmed_mark::permit_workload(host)?,
            }
            Ok(outcome)
        }
    }
}

/// Load the pending record. That of an unconfirmed generation is written again where it was lost with `/var` or cannot be
/// read. Without the generation's own record there is no way, and its activation fails.
fn load_or_restore_pending(host: &LockedHost<'_>) -> Result<Option<PendingGeneration>, TransactionError> {
    match pending::load(host.as_root()) {
        Ok(Some(found)) => return Ok(Some(found)),
        Ok(None) => {}
        // Of a deployment that is none of ours, it is left to the release that wrote it, or to `recover`.
        Err(error) => log::warn!("{}", chain(&error)),
    }
    Ok(pending::restore(host)?)
}

/// Complete the activation once all mounts are made, and let the workload of an unconfirmed generation start then.
pub fn activate_after_mounts(host: &LockedHost<'_>) -> Result<ActivationOutcome, TransactionError> {
    let booted = &host.running.booted.deployment;
    interrupted::recover_first(host)?;
    let found = pending::load(host.as_root()).unwrap_or_default();
    let is_pending = found.is_some_and(|pending| pending.is_deployed_as(booted));
    let mode = activation_mode(unconfirmed_mark::mark_state(host, booted), is_pending);
    let activated = activate::activate_recovered(host, mode, ActivationStage::AfterMounts)?;
    unconfirmed_mark::permit_workload(host)?;
    Ok(activated)
}

fn activation_mode(mark: MarkState, is_pending: bool) -> ActivationMode {
    match mark {
        MarkState::Absent | MarkState::Foreign if !is_pending => ActivationMode::AsFarAsPossible,
        _ => ActivationMode::AllOrNothing,
    }
}

/// Activate the recorded generation, with the files that are carried forward into it.
fn activate_recorded(
    host: &LockedHost<'_>,
    state: BootedState,
    record: &GenerationRecord,
    mode: ActivationMode,
) -> Result<EarlyBootOutcome, TransactionError> {
    let carried = carry_forward(host, state, record);
    let (carried, problem) = match carried {
        Err(error) if mode == ActivationMode::AsFarAsPossible => {
            (0, Some(format!("files are not carried forward: {}", error.chain())))
        }
        carried => (carried?, None),
    };
    let mut activated = activate::activate_recovered(host, mode, ActivationStage::Early)?;
    activated.problems.extend(problem);
    Ok(EarlyBootOutcome::Activated { state, activated, carried })
}

/// Recover an interrupted change of the booted deployment, or of another one: a power cut can interrupt a
/// change, and an administrator can then choose another deployment in the boot menu.
fn recover_any_deployment(host: &LockedHost<'_>, namespace: &MountNamespace) -> Result<(), TransactionError> {
    let elsewhere = match interrupted::recover_first(host) {
        // A foreign deployment has a copy of this one's record, and then the staged files of the change.
        Err(TransactionError::Recovery(
            error @ (RecoveryError::OtherDeployment { .. } | RecoveryError::StagingMissing(_)),
        )) => error,
        recovered => return recovered,
    };
    namespace.make_writable(Path::new(SYSROOT))?;
    for id in other_deployments(&host.running.booted)? {
        let other = booted::open_beside_booted(&id)?;
        let found = match CurrentState::load_record(&other) {
            Ok(record) => record.map(|record| record.generation),
            Err(error) => {
                log::warn!("deployment {id} is left out of the recovery: {}", chain(&error));
                continue;
            }
        };
        match recover::recover(&other, &NoServices, found.as_ref(), host.boot_id()) {
            // Only an open change can be of this deployment, and only once its journal is found.
            Ok(RecoveryOutcome::Nothing)
            | Err(RecoveryError::OtherDeployment { .. } | RecoveryError::StagingMissing(_)) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => {
                log::warn!("recovered an interrupted change of deployment {id}");
                return Ok(());
            }
        }
    }
    Err(elsewhere.into())
}

/// List the other deployments of the stateroot from the directory, including deployments without a boot
/// entry.
fn other_deployments(booted: &BootedDeployment) -> Result<Vec<DeploymentId>, TransactionError> {
    let stateroot = &booted.deployment.stateroot;
    let directory = Root::open(&Path::new(SYSROOT).join(format!("ostree/deploy/{stateroot}")))?;
    let names = directory.list(&ManagedPath::constant("/deploy"))?;
    let ids = names.iter().filter_map(|name| DeploymentId::from_directory(stateroot, name));
    Ok(ids.filter(|id| *id != booted.deployment).collect())
}

/// Write the pending generation's configuration into the booted `/etc`, as a journaled change.
fn write_missing_config(
    root: &LockedRoot<'_>,
    pending: &PendingGeneration,
) -> Result<EarlyBootOutcome, TransactionError> {
    // First of all: from here on the workload waits for a complete generation.
    unconfirmed_mark::write_mark(root, pending)?;
    // The attempt is recorded before the change: if writing does not help, the next boot rolls back instead
    // of trying a third time.
    pending::append_entry(
        root.as_root(),
        &PendingEntry::BootedWithoutConfig { boot_id: root.boot_id().to_owned() },
    )?;
    let current = CurrentState::load(root)?;
    let finalize::EtcSteps { steps, labels } = finalize::etc_steps(root, root, &current, pending)?;
    let before = current.record.as_ref().map(|record| &record.generation);
    apply_steps(root, [before, Some(pending.generation())], &steps, &labels)?;
    Ok(EarlyBootOutcome::ConfigWritten { generation: pending.generation().to_owned() })
}

/// Longest wait for `/boot`: systemd's default timeout for a device (90 seconds), and a margin.
const ENTRIES_LIMIT: Duration = Duration::from_secs(120);

/// Result of a rollback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RollbackResult {
    /// The deployment that the generation was staged on boots next; the caller reboots.
    BootsNext,
    /// That deployment no longer exists, so the generation stays. Nothing has changed.
    DeploymentGone,
}

/// Roll back `pending`: block its config, and make the deployment that it was staged on the default one.
/// May be interrupted at any point: the pending record, which stays until that deployment has booted, makes
/// the next boot or the next boot check repeat the rollback.
pub fn roll_back(
    os: SysrootOpener<'_>,
    host: &RunningHost,
    pending: &PendingGeneration,
    reason: BlockReason<'_>,
) -> Result<RollbackResult, TransactionError> {
    // Before the rejection is recorded: it could not be taken back.
    let Some(mut os) = open_for_rollback(os, &pending.staged.base)? else {
        return Ok(RollbackResult::DeploymentGone);
    };
    match host.lock() {
        Ok(host) => reject(&host, pending, reason)?,
        Err(error) if error.is_busy() => return Err(error.into()),
        // `/var` is missing. The record that is in it makes the other deployment block the target.
        Err(error) => log::warn!("the rejection is not recorded: {}", chain(&error)),
    }
    os.set_default(&pending.staged.base)?;
    Ok(RollbackResult::BootsNext)
}

/// Roll back to `base`, for a generation of which nothing else can be read. The records that are on disk, for a newer
/// release, make the agent of that deployment block the target.
pub(crate) fn roll_back_to(
    os: SysrootOpener<'_>,
    base: &DeploymentId,
) -> Result<RollbackResult, TransactionError> {
    let Some(mut os) = open_for_rollback(os, base)? else { return Ok(RollbackResult::DeploymentGone) };
    os.set_default(base)?;
    Ok(RollbackResult::BootsNext)
}

/// Open a session once the boot entries are mounted; `None` if the deployment `base` no longer exists.
fn open_for_rollback(
    os: SysrootOpener<'_>,
    base: &DeploymentId,
) -> Result<Option<Box<dyn Sysroot>>, TransactionError> {
    if !booted::has_entries_within(ENTRIES_LIMIT) {
        return Err(BootError::NoBootEntries(ENTRIES_LIMIT.as_secs()).into());
    }
    let mut os = os(SysrootAccess::Stage)?;
    let exists = os.deployments()?.iter().any(|deployment| deployment.id == *base);
    Ok(exists.then_some(os))
}

/// Record the rejection of `pending`, and block its config.
fn reject(
    host: &LockedHost<'_>,
    pending: &PendingGeneration,
    reason: BlockReason<'_>,
) -> Result<(), TransactionError> {
    let note = HistoryNote::of(&pending.staged.record).because(reason.sentence);
    let is_recorded = pending::load(host.as_root()).is_ok_and(|found| found.is_some());
    if is_recorded && pending.rejected.is_none() {
        let (boot_id, reason) = (host.boot_id().to_owned(), reason.sentence.to_owned());
        pending::append_entry(host.as_root(), &PendingEntry::Rejected { boot_id, reason })?;
        history::note(host, HistoryEvent::RolledBack, note);
    }
    block(host, &pending.staged.record, reason)
}

/// Return true if the deployment that `pending` was staged on still exists. Reads the directory, and so needs
/// neither libostree nor `/boot`.
pub(crate) fn has_rollback_deployment(pending: &PendingGeneration) -> bool {
    Path::new(SYSROOT).join(pending.staged.base.path()).is_dir()
}

/// Activate a generation that should be rolled back, and has no deployment to roll back to.
pub fn activate_kept(host: &LockedHost<'_>) -> Result<ActivationOutcome, TransactionError> {
    let mode = ActivationMode::AsFarAsPossible;
    let activated = activate::activate_recovered(host, mode, ActivationStage::AfterMounts)?;
    unconfirmed_mark::permit_workload(host)?;
    Ok(activated)
}

/// Carry run-time-owned files of the last booted deployment forward into the `/etc` of the booted one, if
/// that is older. Returns the number of changed paths. The `/etc` of a deployment that boots for the first
/// time was merged from the running `/etc` and needs nothing.
fn carry_forward(
    host: &LockedHost<'_>,
    state: BootedState,
    record: &GenerationRecord,
) -> Result<usize, TransactionError> {
    // The activation reports an unreadable manifest.
    let active = objects::load_active(host).unwrap_or_default();
    let Some(ran) = active.and_then(|active| active.last_booted) else { return Ok(0) };
    let is_left = ran.deployment != host.running.booted.deployment && record.sequence <= ran.latest;
    if state != BootedState::Complete || !is_left {
        return Ok(0);
    }
    let last = match booted::open_beside_booted(&ran.deployment) {
        Ok(last) => last,
        Err(error) => {
            log::warn!(
                "cannot carry files forward from deployment {}: {error}",
                ran.deployment,
                error = chain(&error)
            );
            return Ok(0);
        }
    };
    // An unreadable record may be why that deployment was left, and is no reason to stop here.
    let left = CurrentState::load_record(&last).unwrap_or_else(|error| {
        log::warn!("cannot block the target of deployment {}: {}", ran.deployment, chain(&error));
        None
    });
    if let Some(left) = left.filter(|left| left.sequence > record.sequence) {
        let how = host.running.booted.choice().description();
        let reason = format!("a previous deployment was booted, {how}");
        block(host, &left, reason.as_str().into())?;
    }
    let (current, _) = CurrentState::load_available(host)?;
    let steps = carry_forward::carry_forward_steps(host, &last, current.host())?;
    let labels = labels::labels_of_steps(host.as_root(), &steps, &current.prior_changes().labels)?;
    apply_steps(host, [Some(&record.generation); 2], &steps, &labels)?;
    Ok(steps.len())
}

/// Apply steps to the booted deployment as a journaled change. No service runs yet, so none is reloaded.
fn apply_steps(
    root: &LockedRoot<'_>,
    [current, target]: [Option<&GenerationId>; 2],
    steps: &[PlanStep],
    labels: &SelinuxLabels,
) -> Result<(), TransactionError> {
    let change = JournaledChange {
        current,
        target,
        boot_id: root.boot_id(),
        scope: JournalScope::Deployment,
        steps,
        labels,
        actions: &[],
    };
    Ok(apply::apply(root.as_root(), &NoServices, change)?)
}
