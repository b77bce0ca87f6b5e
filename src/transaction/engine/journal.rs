//! The journal on a disk: written once, added to, read back, removed.

use std::collections::BTreeSet;

use crate::core::state::journal::{
    JOURNAL, Journal, JournalError, JournalIntent, NEW_JOURNAL, TransactionState,
};
use crate::core::values::names::ManagedPath;
use crate::host::{HostDisk, HostError};

use super::atomic_file;
use super::atomic_file::{ATTRIBUTES, remove_if_present};

/// The most that is read of a journal, in bytes: the paths of as many files as a configuration may
/// have, with their slots, several times over.
const JOURNAL_BYTES: usize = 64 << 20;

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalLoadError {
    /// It cannot be read.
    #[error(transparent)]
    Host(#[from] HostError),
    /// It cannot be understood.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Reads the journal of an open transaction; `None` where none is open.
pub fn load(disk: &dyn HostDisk) -> Result<Option<Journal>, JournalLoadError> {
    let bytes = disk.read(&ManagedPath::constant(JOURNAL), JOURNAL_BYTES)?;
    Ok(bytes.map(|bytes| Journal::parse(&bytes)).transpose()?)
}

/// Makes `staged` durable, then the journal that undoes whatever comes of it: two rounds of
/// flushes, in each of which all go on at once.
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
        // Nothing was ever settled here: a run that was killed may just have made the directory that
        // the journal is to be found in.
        names.extend(new.ancestors().map(|above| above.parent()));
    }
    disk.sync(&names.into_iter().collect::<Vec<_>>())?;
    disk.rename(&new, &ManagedPath::constant(JOURNAL))?;
    disk.sync(&[new.parent()])
}

/// Notes durably that a point was reached.
pub(crate) fn append_state(disk: &dyn HostDisk, reached: TransactionState) -> Result<(), HostError> {
    let journal = ManagedPath::constant(JOURNAL);
    disk.append(&journal, &reached.render())?;
    disk.sync(&[Some(journal)])
}

/// Makes the journal say again that `reached` is how far it came: a line that could not be added may
/// be there in part, or in whole.
pub(crate) fn rewrite(
    disk: &dyn HostDisk,
    intent: &JournalIntent,
    reached: TransactionState,
) -> Result<(), HostError> {
    let lines = [intent.render(), reached.render()].concat();
    atomic_file::write(disk, &ManagedPath::constant(JOURNAL), &ManagedPath::constant(NEW_JOURNAL), &lines)
}

/// Removes the journal of a transaction that is taken back, durably: what is staged is what nobody
/// needs any more from then on.
pub(crate) fn close_durably(disk: &dyn HostDisk) -> Result<(), HostError> {
    close(disk)?;
    disk.sync(&[ManagedPath::constant(JOURNAL).parent()])
}

/// Removes the journal: nothing of the transaction is left.
pub(crate) fn close(disk: &dyn HostDisk) -> Result<(), HostError> {
    remove_if_present(disk, &ManagedPath::constant(JOURNAL))?;
    remove_if_present(disk, &ManagedPath::constant(NEW_JOURNAL))
}
