//! Journal of a change on disk: write once, append, read back, remove.

use std::collections::BTreeSet;

use super::atomic_file;
use super::atomic_file::{ATTRIBUTES, remove_if_present};
use crate::core::state::journal::{
    JOURNAL, Journal, JournalError, JournalIntent, NEW_JOURNAL, TransactionState,
};
use crate::core::values::names::ManagedPath;
use crate::host::{HostDisk, HostError, SyncQueue};

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

/// Write the journal that undoes a staged change, under a name that recovery does not read, and pass to `sync` all that has
/// to be durable before it is opened, besides the staged content.
pub(crate) fn write_new(
    disk: &dyn HostDisk,
    intent: &JournalIntent,
    sync: &mut SyncQueue<'_>,
) -> Result<(), HostError> {
    let new = ManagedPath::constant(NEW_JOURNAL);
    disk.create_file(&new, &intent.render(), ATTRIBUTES, None)?;
    let mut names: BTreeSet<Option<ManagedPath>> =
        intent.staging.iter().flat_map(|directory| [Some(directory.clone()), directory.parent()]).collect();
    if intent.current.is_none() {
        // Without a current generation, this process or a killed one may have just created the journal's
        // parent directories, so their entries are synced as well.
        names.extend(new.ancestors().map(|above| above.parent()));
    }
    sync(Some(new));
    names.into_iter().for_each(sync);
    Ok(())
}

/// Open the new journal. From now on, an interruption leads to the undoing of the change.
pub(crate) fn open(disk: &dyn HostDisk) -> Result<(), HostError> {
    let journal = ManagedPath::constant(JOURNAL);
    disk.rename(&ManagedPath::constant(NEW_JOURNAL), &journal)?;
    disk.sync(&[journal.parent()])
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
