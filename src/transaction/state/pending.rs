//! Pending record on disk: write once, append entries, read back, remove.

use serde_json::Value;

use crate::core::config::layering::PackageLayering;
use crate::core::history::{HistoryEvent, HistoryNote};
use crate::core::state::booted_state::PendingOutcome;
use crate::core::state::pending::{
    PENDING, PendingEntry, PendingError, PendingGeneration, StagedGeneration, VERSION,
};
use crate::core::state::{booted_state, log_line};
use crate::core::values::causes::chain;
use crate::core::values::deployment::DeploymentId;
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::host::{HostDisk, HostError, LockedHost, Root};
use crate::transaction::TransactionError;
use crate::transaction::engine::atomic_file;
use crate::transaction::engine::atomic_file::remove_if_present;
use crate::transaction::history;
use crate::transaction::state::blocked;
use crate::transaction::state::current::CurrentState;
use crate::transaction::state::unconfirmed_mark;

/// Temporary name while a new version is written.
const NEW_PENDING: &str = "/var/lib/flameholder/pending.new";

/// Maximum size of a pending record, which contains a config and a generation record.
const PENDING_BYTES: usize = 4 * limits::DOCUMENT_BYTES;

/// Error of reading the pending record.
#[derive(Debug, thiserror::Error)]
pub enum PendingLoadError {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Pending(#[from] PendingError),
}

/// Load the pending record; `None` if no generation is pending.
pub fn load(disk: &dyn HostDisk) -> Result<Option<PendingGeneration>, PendingLoadError> {
    let bytes = disk.read(&ManagedPath::constant(PENDING), PENDING_BYTES)?;
    Ok(bytes.map(|bytes| PendingGeneration::parse(&bytes)).transpose()?)
}

/// Load the pending record, or set it aside if it is damaged or of a newer release: such a document must not stop updates,
/// rollbacks and foreign deployments.
pub(crate) fn load_or_set_aside(disk: &dyn HostDisk) -> Result<Option<PendingGeneration>, HostError> {
    match load(disk) {
        Ok(pending) => Ok(pending),
        Err(PendingLoadError::Host(error)) => Err(error),
        Err(PendingLoadError::Pending(error)) => {
            let path = ManagedPath::constant(PENDING);
            log::warn!("{}; it is set aside as {}", chain(&error), atomic_file::aside(&path));
            atomic_file::set_aside(disk, &path)?;
            Ok(None)
        }
    }
}

/// Compose the pending record of the booted generation, which was lost or cannot be read, from the mark in its deployment
/// and its record: the boot check then decides it as any other. `None` for a generation without a mark of its own, or
/// without a record.
pub(crate) fn recompose(root: &Root, booted: &DeploymentId) -> Option<StagedGeneration> {
    let mark = unconfirmed_mark::load_mark(root, booted)?;
    let record = CurrentState::load_record(root).unwrap_or_default()?;
    let deployment = record.deployment.clone().filter(|_| record.names(booted))?;
    Some(StagedGeneration {
        version: VERSION,
        kernel_arguments: deployment.kernel_arguments.clone(),
        layering: PackageLayering::default(),
        document: Value::Null,
        base: mark.base,
        replaces: None,
        staged_in_boot: record.boot_id.clone(),
        failures: Vec::new(),
        completes_first_boot: mark.completes_first_boot,
        transactions: 0,
        had_network: false,
        deployment,
        record,
    })
}

/// Write the pending record of the booted generation again, if it can be composed.
pub(crate) fn restore(host: &LockedHost<'_>) -> Result<Option<PendingGeneration>, HostError> {
    let Some(staged) = recompose(host, &host.running.booted.deployment) else { return Ok(None) };
    load_or_set_aside(host.as_root())?;
    // It booted, so it was finalized; and there is no config to stage it again. Both in one write: a power cut in between
    // would leave a record to stage again.
    let finalized = PendingEntry::Finalized { boot_id: staged.staged_in_boot.clone() };
    write(host.as_root(), &[staged.render(), finalized.render()].concat())?;
    log::warn!("the pending record {PENDING} of generation {} is written again", staged.record.generation);
    Ok(Some(PendingGeneration { is_finalized: true, ..PendingGeneration::new(staged) }))
}

/// Load the pending generation and decide its outcome in this boot; `None` if no generation is pending.
pub(crate) fn observe(
    host: &LockedHost<'_>,
) -> Result<Option<(PendingGeneration, PendingOutcome)>, TransactionError> {
    let Some(pending) = load_or_set_aside(host.as_root())? else { return Ok(None) };
    let record = CurrentState::load_record(host)?;
    let seen = host.running.booted.observation(record.as_ref(), Some(&pending));
    let outcome = booted_state::pending_outcome(seen, host.boot_id(), None);
    Ok(Some((pending, outcome)))
}

/// Block the config of a generation that failed to boot, and remove its pending record. The record goes last:
/// a crash in between leaves both, and the next call blocks the same target again.
pub(crate) fn block(
    host: &LockedHost<'_>,
    pending: &PendingGeneration,
    reason: &str,
) -> Result<(), TransactionError> {
    // The agent of the rejected generation has noted it otherwise.
    if pending.rejected.is_none() {
        let note = HistoryNote::of(&pending.staged.record).because(reason);
        history::note(host, HistoryEvent::RolledBack, note);
    }
    blocked::block(host, &pending.staged.record, reason.into())?;
    Ok(remove(host.as_root())?)
}

/// Replace the pending record, durably.
pub(crate) fn write_staged(disk: &dyn HostDisk, intent: &StagedGeneration) -> Result<(), HostError> {
    write(disk, &intent.render())
}

fn write(disk: &dyn HostDisk, contents: &[u8]) -> Result<(), HostError> {
    atomic_file::write(disk, &ManagedPath::constant(PENDING), &ManagedPath::constant(NEW_PENDING), contents)
}

/// Append an entry to the pending record, durably.
pub(crate) fn append_entry(disk: &dyn HostDisk, reached: &PendingEntry) -> Result<(), HostError> {
    let pending = ManagedPath::constant(PENDING);
    let written = disk.read(&pending, PENDING_BYTES)?.unwrap_or_default();
    let whole = log_line::whole_length(&written);
    if whole == written.len() {
        disk.append(&pending, &reached.render())?;
        return disk.sync(&[Some(pending)]);
    }
    // After a power cut, the last line can be incomplete. An entry appended to it would be unreadable, so
    // the complete lines are written again.
    let mut lines = written;
    lines.truncate(whole);
    lines.extend(reached.render());
    write(disk, &lines)
}

/// Remove the pending record, durably.
pub(crate) fn remove(disk: &dyn HostDisk) -> Result<(), HostError> {
    remove_if_present(disk, &ManagedPath::constant(PENDING))?;
    remove_if_present(disk, &ManagedPath::constant(NEW_PENDING))?;
    disk.sync(&[ManagedPath::constant(PENDING).parent()])
}
