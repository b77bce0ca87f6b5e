//! Activation service, early in boot: identify the booted deployment, recover an interrupted change, and
//! make the generation complete before other services start. Needs no network, no D-Bus and no libostree.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use super::activate::{ActivationMode, ActivationOutcome, ActivationStage, LastBootedNote};
use super::carry_forward::CarriedFiles;
use super::{activate, carry_forward};
use crate::core::history::{HistoryEvent, HistoryNote};
use crate::core::plan::steps::PlanStep;
use crate::core::state::booted_state;
use crate::core::state::booted_state::{BootedState, PendingOutcome};
use crate::core::state::journal::JournalScope;
use crate::core::state::pending::{PendingEntry, PendingGeneration};
use crate::core::state::record::GenerationRecord;
use crate::core::values::causes::chain;
use crate::core::values::identifiers::GenerationId;
use crate::core::values::names::ManagedPath;
use crate::host::facts::awaited_mounts::AwaitedMounts;
use crate::host::facts::booted;
use crate::host::facts::booted::{BootedDeployment, SYSROOT};
use crate::host::mount_namespace::MountNamespace;
use crate::host::systemd::service_port::NoServices;
use crate::host::{LockedHost, LockedRoot, Root};
use crate::os::DeploymentId;
use crate::transaction::TransactionError;
use crate::transaction::engine::apply::JournaledChange;
use crate::transaction::engine::labels::SelinuxLabels;
use crate::transaction::engine::recover::{RecoveryError, RecoveryOutcome};
use crate::transaction::engine::{apply, recover};
use crate::transaction::history;
use crate::transaction::state::current::CurrentState;
use crate::transaction::state::unconfirmed_mark::MarkState;
use crate::transaction::state::{boot_check_time, interrupted, pending, unconfirmed_mark};
use crate::transaction::update::{extensions, finalize};

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
    /// The record of the confirmed generation cannot be read, or an interrupted change cannot be undone, for this reason.
    /// Its files stay as they are, and it serves.
    LeftAsItIs(String),
    /// An interrupted change has previous files in this directory, whose file system is not mounted yet. The rest of it is
    /// undone; the activation follows the mounts.
    AwaitsMounts(ManagedPath),
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
/// mount namespace, in which other deployments can be made writable. Runs early in the boot, and again after the mounts if
/// files wait for one.
///
/// An unconfirmed generation is activated as a whole, and the workload starts only then. A confirmed one serves
/// whatever its disk says: a file that cannot be put in place is a problem in the outcome.
pub fn activate_at_boot(
    host: &LockedHost<'_>,
    namespace: &MountNamespace,
    time: ActivationStage,
) -> Result<EarlyBootOutcome, TransactionError> {
    unconfirmed_mark::forget_earlier_boot(host)?;
    let booted = &host.running.booted;
    let mark = unconfirmed_mark::mark_state(host, &booted.deployment);
    if mark == MarkState::Foreign {
        unconfirmed_mark::remove_mark(host.as_root())?;
    }
    if let Some(directory) = recover_or_await_mount(host, namespace, time)? {
        return await_recovery(host, directory, mark, time);
    }
    if let Err(error) = extensions::remove(host) {
        log::warn!("cannot remove the repository of the extensions: {}", chain(&error));
    }
    let found = load_or_restore_pending(host)?;
    let is_pending = found.as_ref().is_some_and(|pending| pending.is_deployed_as(&booted.deployment));
    let mode = activation_mode(mark, is_pending);
    let record = match CurrentState::load_record(host) {
        Err(error) if mode == ActivationMode::AsFarAsPossible => {
            return Ok(EarlyBootOutcome::LeftAsItIs(chain(&error)));
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
            if let (PendingOutcome::Booted, Some(pending)) = (outcome, found) {
                record_boot(host, &pending)?;
            }
            let (outcome, remains) = match record {
                Some(record) => activate_recorded(host, state, &record, (mode, time))?,
                None => (EarlyBootOutcome::Unmanaged, false),
            };
            if remains {
                unconfirmed_mark::await_mounts(host)?;
            } else {
                unconfirmed_mark::permit_workload(host)?;
            }
            Ok(outcome)
        }
    }
}

/// Record a boot of the pending generation, before its activation, so that a boot that hangs or panics counts as well.
fn record_boot(host: &LockedHost<'_>, pending: &PendingGeneration) -> Result<(), TransactionError> {
    if !pending.booted_in.iter().any(|boot| boot == host.boot_id()) {
        pending::append_entry(host.as_root(), &PendingEntry::Booted { boot_id: host.boot_id().to_owned() })?;
        history::note(host, HistoryEvent::Booted, HistoryNote::of(&pending.staged.record));
    }
    Ok(())
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

/// Recover an interrupted change. Returns the directory with its previous files if that is below a mount which this boot has yet
/// to make; after the mounts, one that is ordered before no target is waited for.
fn recover_or_await_mount(
    host: &LockedHost<'_>,
    namespace: &MountNamespace,
    stage: ActivationStage,
) -> Result<Option<ManagedPath>, TransactionError> {
    let missing = match recover_any_deployment(host, namespace) {
        Err(TransactionError::Recovery(RecoveryError::StagingMissing(directory))) => directory,
        recovered => return recovered.map(|()| None),
    };
    let limit = match stage {
        ActivationStage::Early => Duration::ZERO,
        _ => boot_check_time::mount_limit(host),
    };
    let mounts = AwaitedMounts::look_until_made(host, &BTreeSet::from([missing.clone()]), limit)?;
    match mounts.above(host, &missing) {
        Some(_) => Ok(Some(missing)),
        None => recover_any_deployment(host, namespace).map(|()| None),
    }
}

/// Undo the reachable part of an interrupted change, before services read it, and leave the rest to the time after the mounts:
/// this boot has yet to make that of `directory`. After these, a confirmed generation serves without it.
fn await_recovery(
    host: &LockedHost<'_>,
    directory: ManagedPath,
    mark: MarkState,
    stage: ActivationStage,
) -> Result<EarlyBootOutcome, TransactionError> {
    recover::undo_reachable(host.as_root())?;
    let booted = &host.running.booted.deployment;
    let pending = pending::load(host.as_root()).unwrap_or_default();
    let pending = pending.filter(|found| found.is_deployed_as(booted));
    if stage == ActivationStage::Early {
        if let Some(pending) = &pending {
            record_boot(host, pending)?;
        }
        unconfirmed_mark::await_mounts(host)?;
        return Ok(EarlyBootOutcome::AwaitsMounts(directory));
    }
    let error = RecoveryError::StagingMissing(directory);
    match activation_mode(mark, pending.is_some()) {
        ActivationMode::AsFarAsPossible => Ok(EarlyBootOutcome::LeftAsItIs(chain(&error))),
        ActivationMode::AllOrNothing => Err(error.into()),
    }
}

fn activation_mode(mark: MarkState, is_pending: bool) -> ActivationMode {
    match mark {
        MarkState::Absent | MarkState::Foreign if !is_pending => ActivationMode::AsFarAsPossible,
        _ => ActivationMode::AllOrNothing,
    }
}

/// Activate the recorded generation, with the files that are carried forward into it. Returns true if work remains for the time
/// after the mounts. There, files that could not be carried forward are tried once more, and never after that: the workload
/// starts, and a later boot would put old files over those that it writes.
fn activate_recorded(
    host: &LockedHost<'_>,
    state: BootedState,
    record: &GenerationRecord,
    (mode, time): (ActivationMode, ActivationStage),
) -> Result<(EarlyBootOutcome, bool), TransactionError> {
    let (carried, note) = match carry_forward::carry_forward(host, state, record) {
        Err(error) if mode == ActivationMode::AsFarAsPossible => {
            let problem = format!("files are not carried forward: {}", error.chain());
            let note = match time {
                ActivationStage::Early => LastBootedNote::Kept,
                _ => LastBootedNote::Replaced,
            };
            (CarriedFiles { changed: 0, problems: vec![problem] }, note)
        }
        carried => (carried?, LastBootedNote::Replaced),
    };
    let mut activated = activate::activate_recovered(host, mode, time, note)?;
    activated.problems.extend(carried.problems);
    let remains = !activated.awaited.is_empty() || note == LastBootedNote::Kept;
    Ok((EarlyBootOutcome::Activated { state, activated, carried: carried.changed }, remains))
}

/// Recover an interrupted change of the booted deployment, or of another one: a power cut can interrupt a
/// change, and an administrator can then choose another deployment in the boot menu.
fn recover_any_deployment(host: &LockedHost<'_>, namespace: &MountNamespace) -> Result<(), TransactionError> {
    let mut elsewhere = match interrupted::recover_first(host) {
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
            Err(RecoveryError::StagingMissing(directory))
                if AwaitedMounts::look(host)?.above(host, &directory).is_some() =>
            {
                elsewhere = RecoveryError::StagingMissing(directory);
            }
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

/// Activate a generation that should be rolled back, and has no deployment to roll back to.
pub fn activate_kept(host: &LockedHost<'_>) -> Result<ActivationOutcome, TransactionError> {
    let mode = ActivationMode::AsFarAsPossible;
    let activated =
        activate::activate_recovered(host, mode, ActivationStage::AfterMounts, LastBootedNote::Replaced)?;
    unconfirmed_mark::permit_workload(host)?;
    Ok(activated)
}

/// Apply steps to the booted deployment as a journaled change. No service runs yet, so none is reloaded.
pub(super) fn apply_steps(
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
