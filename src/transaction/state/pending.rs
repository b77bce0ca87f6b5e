//! The pending generation on a disk: written once, added to, read back, removed.

use crate::core::state::pending::{PENDING, PendingEntry, PendingError, PendingGeneration, StagedGeneration};
use crate::core::values::limits;
use crate::core::values::log_line;
use crate::core::values::names::ManagedPath;
use crate::host::{HostDisk, HostError};

use crate::transaction::engine::atomic_file;
use crate::transaction::engine::atomic_file::remove_if_present;

/// Where it is written before it has its name.
const NEW_PENDING: &str = "/var/lib/flameholder/pending.new";

/// The most that is read: a configuration, and a record of it.
const PENDING_BYTES: usize = 4 * limits::DOCUMENT_BYTES;

/// Why a pending generation cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PendingLoadError {
    /// It cannot be read.
    #[error(transparent)]
    Host(#[from] HostError),
    /// It cannot be understood.
    #[error(transparent)]
    Pending(#[from] PendingError),
}

/// Reads it; `None` where nothing is pending.
pub fn load(disk: &dyn HostDisk) -> Result<Option<PendingGeneration>, PendingLoadError> {
    let bytes = disk.read(&ManagedPath::constant(PENDING), PENDING_BYTES)?;
    Ok(bytes.map(|bytes| PendingGeneration::parse(&bytes)).transpose()?)
}

/// Writes it in place of the one before, durably.
pub(crate) fn write_staged(disk: &dyn HostDisk, intent: &StagedGeneration) -> Result<(), HostError> {
    write(disk, &intent.render())
}

fn write(disk: &dyn HostDisk, contents: &[u8]) -> Result<(), HostError> {
    atomic_file::write(disk, &ManagedPath::constant(PENDING), &ManagedPath::constant(NEW_PENDING), contents)
}

/// Notes durably that something happened to it.
pub(crate) fn append_entry(disk: &dyn HostDisk, reached: &PendingEntry) -> Result<(), HostError> {
    let pending = ManagedPath::constant(PENDING);
    let written = disk.read(&pending, PENDING_BYTES)?.unwrap_or_default();
    let whole = log_line::whole_length(&written);
    if whole == written.len() {
        disk.append(&pending, &reached.render())?;
        return disk.sync(&[Some(pending)]);
    }
    // A power cut ended the last line early: one that is added to it would be damaged.
    let mut lines = written;
    lines.truncate(whole);
    lines.extend(reached.render());
    write(disk, &lines)
}

/// Removes it, durably: nothing is pending any more.
pub(crate) fn remove(disk: &dyn HostDisk) -> Result<(), HostError> {
    remove_if_present(disk, &ManagedPath::constant(PENDING))?;
    remove_if_present(disk, &ManagedPath::constant(NEW_PENDING))?;
    disk.sync(&[ManagedPath::constant(PENDING).parent()])
}
