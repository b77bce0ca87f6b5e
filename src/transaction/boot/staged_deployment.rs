//! From a staged generation to the reboot, and what is done about it once the host is up again.

use crate::transaction::state::interrupted;
use std::path::Path;

use crate::core::state::booted_state;
use crate::core::state::booted_state::PendingOutcome;
use crate::core::state::pending::{PendingEntry, PendingGeneration, UpdateFailure};
use crate::host::facts::boot;
use crate::host::facts::booted::{BootedDeployment, SYSROOT};
use crate::host::fs::lock::HostLock;
use crate::host::{Root, ServiceControl};
use crate::os::Sysroot;
use crate::os::protocol::SysrootAccess;

use crate::transaction::state::blocked::block;
use crate::transaction::state::current::CurrentState;
use crate::transaction::state::pending;
use crate::transaction::update::{extensions, space, stage};
use crate::transaction::{SysrootOpener, TransactionError};

/// The unit with which libostree finalizes what is staged, when it is stopped.
const FINALIZER: &str = "ostree-finalize-staged.service";

/// Arms what is pending: the next shutdown of this boot switches to it. All that it takes is durable
/// already; the lock goes last.
pub fn unlock(
    os: &mut dyn Sysroot,
    services: &dyn ServiceControl,
    pending: &PendingGeneration,
) -> Result<(), TransactionError> {
    ensure_finalize_drop_in(services)?;
    let root = Root::open(Path::new("/"))?;
    let _lock = HostLock::take(&root)?;
    let id = pending.intent.deployment.id();
    if !stage::staged_deployment(os)?.is_some_and(|staged| stage::is_pending(&staged, pending)) {
        return Err(TransactionError::NotStaged(pending.generation().to_owned()));
    }
    space::ensure_space(&Path::new(SYSROOT).join(id.path()))?;
    pending::append_entry(&root, &PendingEntry::Unlocked { boot_id: boot::boot_id() })?;
    Ok(os.unlock(&id)?)
}

/// Without our drop-in for that unit the generation would boot without its configuration. Where nobody
/// can be asked, that is found out early in the next boot.
fn ensure_finalize_drop_in(services: &dyn ServiceControl) -> Result<(), TransactionError> {
    let Some(commands) = services.stop_commands(FINALIZER) else { return Ok(()) };
    let binds = |command: &Vec<String>| {
        command.first().is_some_and(|program| Path::new(program).file_name() == Some("flameholder".as_ref()))
            && command.get(1).is_some_and(|verb| verb == "finalize")
    };
    if commands.iter().any(binds) {
        return Ok(());
    }
    let lines: Vec<String> = commands.iter().map(|command| format!("`{}`", command.join(" "))).collect();
    let instead = if lines.is_empty() { "nothing".to_owned() } else { lines.join(", ") };
    Err(TransactionError::FinalizeDropInMissing { unit: FINALIZER, instead })
}

/// What became of the generation that was to boot.
#[derive(Debug)]
pub enum PendingRecovery {
    /// Nothing was pending.
    Nothing,
    /// It is staged, and boots with the next reboot, once it is armed.
    AwaitsReboot(Box<PendingGeneration>),
    /// It runs, and is to show that it is healthy.
    Unconfirmed(Box<PendingGeneration>),
    /// It had its chance, and what it replaced runs again; it is held, for this reason.
    RolledBack(Box<PendingGeneration>, String),
    /// It did not come about, and is staged again.
    Restaged(Box<PendingGeneration>, UpdateFailure),
    /// Another deployment runs than the one that it was made for; it is forgotten.
    Superseded(Box<PendingGeneration>),
    /// Somebody discarded what was staged; it is forgotten.
    Discarded(Box<PendingGeneration>),
}

/// Settles what is pending, once the host is up.
pub fn recover_pending(
    booted: &BootedDeployment,
    open: SysrootOpener<'_>,
) -> Result<PendingRecovery, TransactionError> {
    let root = Root::open(Path::new("/"))?;
    let _lock = HostLock::take(&root)?;
    let boot_id = boot::boot_id();
    interrupted::recover_first(&root, &boot_id)?;
    extensions::remove(&root)?;
    let Some(found) = pending::load(&root)? else { return Ok(PendingRecovery::Nothing) };
    let record = CurrentState::load_record(&root)?;
    let fate = booted_state::pending_outcome(booted.seen(record.as_ref(), Some(&found)), &boot_id, None);
    let found = Box::new(found);
    match fate {
        PendingOutcome::Nothing => Ok(PendingRecovery::Nothing),
        PendingOutcome::AwaitsReboot => {
            if stage::staged_deployment(&mut *open(SysrootAccess::Stage)?)?
                .is_some_and(|staged| stage::is_pending(&staged, &found))
            {
                return Ok(PendingRecovery::AwaitsReboot(found));
            }
            pending::remove(&root)?;
            Ok(PendingRecovery::Discarded(found))
        }
        PendingOutcome::Booted => Ok(PendingRecovery::Unconfirmed(found)),
        PendingOutcome::Restage(failure) => {
            let again =
                stage::restage(&mut *open(SysrootAccess::Stage)?, &root, booted, &found, failure.clone())?;
            Ok(PendingRecovery::Restaged(Box::new(again), failure))
        }
        PendingOutcome::Superseded => {
            pending::remove(&root)?;
            Ok(PendingRecovery::Superseded(found))
        }
        PendingOutcome::RolledBack(reason) => {
            block(&root, &found.intent.record, &reason)?;
            pending::remove(&root)?;
            Ok(PendingRecovery::RolledBack(found, reason))
        }
        // The early part of the boot is there for that, and did not do it.
        PendingOutcome::WriteConfig | PendingOutcome::RollBack(_) => {
            Err(TransactionError::ConfigNotWritten(found.generation().to_owned()))
        }
    }
}
