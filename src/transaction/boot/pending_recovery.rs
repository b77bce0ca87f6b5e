//! Recovery of the pending generation: the rest of its work after a boot, a shutdown or an interruption.

use crate::core::state::booted_state::PendingOutcome;
use crate::core::state::pending::{PendingGeneration, UpdateFailure};
use crate::host::LockedHost;
use crate::os::protocol::SysrootAccess;
use crate::transaction::boot::automatic_rollback;
use crate::transaction::boot::error::BootError;
use crate::transaction::state::{interrupted, pending};
use crate::transaction::update::running_host::interrupted_request;
use crate::transaction::update::stage::rollback_pin;
use crate::transaction::update::{extensions, stage};
use crate::transaction::{SysrootOpener, TransactionError};

/// State of the pending generation after recovery.
#[derive(Debug)]
pub enum PendingRecovery {
    /// No generation was pending.
    Nothing,
    /// The generation is staged. After unlocking, the next reboot boots it.
    AwaitsReboot(Box<PendingGeneration>),
    /// The generation is finalized. The next full reboot boots it; a soft reboot did not.
    AwaitsFullReboot(Box<PendingGeneration>),
    /// The generation is booted, and its boot check is due.
    Unconfirmed(Box<PendingGeneration>),
    /// The generation is booted and rejected, with this reason; the reboot into the deployment before it is
    /// outstanding.
    RollingBack(Box<PendingGeneration>, String),
    /// The generation failed to boot, and the previous deployment is booted again. Its config is blocked,
    /// with this reason.
    RolledBack(Box<PendingGeneration>, String),
    /// The generation was not finalized, and is staged again.
    Restaged(Box<PendingGeneration>, UpdateFailure),
    /// Another program's deployment is booted instead of the one that the generation was staged on; the
    /// pending record is removed.
    Superseded(Box<PendingGeneration>),
    /// Another program discarded or replaced the staged deployment; the pending record is removed.
    Discarded(Box<PendingGeneration>),
}

impl PendingRecovery {
    /// Return the generation that is or was pending.
    #[must_use]
    pub fn generation(&self) -> Option<&PendingGeneration> {
        match self {
            Self::Nothing => None,
            Self::AwaitsReboot(pending)
            | Self::AwaitsFullReboot(pending)
            | Self::Unconfirmed(pending)
            | Self::RollingBack(pending, _)
            | Self::RolledBack(pending, _)
            | Self::Restaged(pending, _)
            | Self::Superseded(pending)
            | Self::Discarded(pending) => Some(pending),
        }
    }
}

/// Recover the pending generation, once the host is up: keep it, stage it again, block it, or remove its
/// record.
pub fn recover_pending(
    host: &LockedHost<'_>,
    open: SysrootOpener<'_>,
) -> Result<PendingRecovery, TransactionError> {
    interrupted::recover_first(host)?;
    extensions::remove(host)?;
    let recovered = decide_pending(host, open)?;
    if let Some(discarded) = interrupted_request::take_back(host, open)? {
        log::warn!("discarded {discarded}, which rpm-ostreed staged for an interrupted update");
    }
    if rollback_pin::may_be_unneeded(host)? {
        let released =
            open(SysrootAccess::Stage).and_then(|mut os| rollback_pin::release_unneeded(&mut *os, host));
        if let Err(error) = released {
            log::warn!(
                "cannot unpin the previous deployment: {}; `flameholder recover` tries again",
                error.chain()
            );
        }
    }
    Ok(recovered)
}

/// Decide the pending generation, and act on it.
fn decide_pending(
    host: &LockedHost<'_>,
    open: SysrootOpener<'_>,
) -> Result<PendingRecovery, TransactionError> {
    let Some((found, outcome)) = pending::observe(host)? else { return Ok(PendingRecovery::Nothing) };
    let found = Box::new(found);
    match outcome {
        PendingOutcome::Nothing => Ok(PendingRecovery::Nothing),
        PendingOutcome::AwaitsReboot => {
            if stage::staged_deployment(&mut *open(SysrootAccess::Stage)?)?
                .is_some_and(|staged| stage::is_pending(&staged, &found))
            {
                return Ok(PendingRecovery::AwaitsReboot(found));
            }
            pending::remove(host.as_root())?;
            Ok(PendingRecovery::Discarded(found))
        }
        PendingOutcome::AwaitsFullReboot => Ok(PendingRecovery::AwaitsFullReboot(found)),
        PendingOutcome::Restage(failure) => {
            let again = stage::restage(&mut *open(SysrootAccess::Stage)?, host, &found, failure.clone())?;
            Ok(PendingRecovery::Restaged(Box::new(again), failure))
        }
        PendingOutcome::Superseded => {
            pending::remove(host.as_root())?;
            Ok(PendingRecovery::Superseded(found))
        }
        PendingOutcome::RolledBack(reason) => {
            pending::block(host, &found, &reason)?;
            Ok(PendingRecovery::RolledBack(found, reason))
        }
        PendingOutcome::RollBack(reason) if automatic_rollback::has_rollback_deployment(&found) => {
            Ok(PendingRecovery::RollingBack(found, reason))
        }
        // One to roll back is kept where no deployment is left to roll back to.
        PendingOutcome::Booted | PendingOutcome::RollBack(_) => Ok(PendingRecovery::Unconfirmed(found)),
        // The activation service writes it early in boot, so it failed or did not run.
        PendingOutcome::WriteConfig => Err(BootError::ConfigNotWritten(found.generation().to_owned()).into()),
    }
}

#[cfg(test)]
mod tests;
