//! Journal of a change on disk: write once, append, read back, remove.

use std::collections::BTreeSet;

use super::atomic_file;
use super::atomic_file::{ATTRIBUTES, remove_if_present};
use crate::core::state::journal::{
    JOURNAL, Journal, JournalError, JournalIntent, NEW_JOURNAL, TransactionState,
};
use crate::core::values::names::ManagedPath;
use crate::host::{HostDisk, HostError};

/// Maximum size of a journal: several times the paths and slots of the largest allowed config.
const JOURNAL_BYTES: usize = 64 << 20;

/// Error of reading a journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalLoadError {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Read the journal of an interrupted change; `None` if there is none.
pub fn load(disk: &dyn HostDisk) -> Result<Option<Journal>, JournalLoadError> {
    let bytes = disk.read(&ManagedPath::constant(JOURNAL), JOURNAL_BYTES)?;
    Ok(bytes.map(|bytes| Journal::parse(&bytes)).transpose()?)
}

/// Sync the `staged` content and write the journal that undoes the change. Two rounds of flushes, each
/// concurrent: contents first, then directories.
pub(crate) fn open(
    disk: &dyn HostDisk,
    intent: &JournalIntent,
    staged: &[ManagedPath],
) -> Result<(), HostError> {
    let new = ManagedPath::constant(NEW_JOURNAL);
    disk.create_file(&new, &intent.render(), ATTRIBUTES, None)?;
    let contents = staged.iter().chain([&new]).cloned().map(Some);
    disk.sync(&contents.collect::<Vec<_>>())?;
    let mut names: BTreeSet<Option<ManagedPath>> =
        intent.staging.iter().flat_map(|directory| [Some(directory.clone()), directory.parent()]).collect();
    if intent.current.is_none() {
        // Without a current generation, this process or a killed one may have just created the journal's
        // parent directories, so their entries are synced as well.
        names.extend(new.ancestors().map(|above| above.parent()));
    }
    disk.sync(&names.into_iter().collect::<Vec<_>>())?;
    disk.rename(&new, &ManagedPath::constant(JOURNAL))?;
    disk.sync(&[new.parent()])
}

/// Append a state to the journal, durably.
pub(crate) fn append_state(disk: &dyn HostDisk, reached: TransactionState) -> Result<(), HostError> {
    let journal = ManagedPath::constant(JOURNAL);
    disk.append(&journal, &reached.render())?;
    disk.sync(&[Some(journal)])
}

/// Replace the journal so that `reached` is its last state: a failed append can leave a complete or partial
/// line.
pub(crate) fn rewrite(
    disk: &dyn HostDisk,
    intent: &JournalIntent,
    reached: TransactionState,
) -> Result<(), HostError> {
    let lines = [intent.render(), reached.render()].concat();
    atomic_file::write(disk, &ManagedPath::constant(JOURNAL), &ManagedPath::constant(NEW_JOURNAL), &lines)
}

/// Remove the journal of an undone change, durably. After that, its staged content is garbage.
pub(crate) fn close_durably(disk: &dyn HostDisk) -> Result<(), HostError> {
    close(disk)?;
    disk.sync(&[ManagedPath::constant(JOURNAL).parent()])
}

/// Remove the journal. The caller syncs the directory.
pub(crate) fn close(disk: &dyn HostDisk) -> Result<(), HostError> {
    remove_if_present(disk, &ManagedPath::constant(JOURNAL))?;
    remove_if_present(disk, &ManagedPath::constant(NEW_JOURNAL))
}
