//! Rollback of a generation that failed: its config is blocked, and the deployment that it was staged on boots next.

use std::path::Path;
use std::time::Duration;

use crate::core::history::{HistoryEvent, HistoryNote};
use crate::core::state::blocked::BlockReason;
use crate::core::state::pending::{PendingEntry, PendingGeneration};
use crate::host::facts::booted;
use crate::host::facts::booted::SYSROOT;
use crate::host::{LockedHost, RunningHost};
use crate::os::protocol::SysrootAccess;
use crate::os::{DeploymentId, Sysroot};
use crate::transaction::boot::error::BootError;
use crate::transaction::history;
use crate::transaction::state::blocked::block;
use crate::transaction::state::pending;
use crate::transaction::{SysrootOpener, TransactionError};

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
    let rejected = host.lock().map_err(TransactionError::from);
    match rejected.and_then(|host| reject(&host, pending, reason)) {
        Ok(()) => {}
        Err(error) if error.is_busy() => return Err(error),
        // `/var` is missing, full or broken. The pending record that is in it makes the other deployment block the target.
        Err(error) => log::warn!(
            "the rejection cannot be recorded; the deployment that boots next blocks the target: {}",
            error.chain()
        ),
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
