//! The pending generation on a disk: written once, added to, read back, removed.

use crate::core::limits;
use crate::core::names::ManagedPath;
use crate::core::pending::{Intent, PENDING, Pending, PendingError, Reached};
use crate::core::tree::Attributes;
use crate::host::{Disk, HostError};

/// Where it is written before it has its name.
const NEW_PENDING: &str = "/var/lib/hostwright/pending.new";

/// The most that is read: a configuration, and a record of it.
const PENDING_BYTES: usize = 4 * limits::DOCUMENT_BYTES;

/// A configuration may hold secrets.
const ATTRIBUTES: Attributes = Attributes { mode: 0o600, uid: 0, gid: 0 };

/// Why a pending generation cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It cannot be read.
    #[error(transparent)]
    Host(#[from] HostError),
    /// It cannot be understood.
    #[error(transparent)]
    Pending(#[from] PendingError),
}

/// Reads it; `None` where nothing is pending.
pub fn load(disk: &dyn Disk) -> Result<Option<Pending>, LoadError> {
    let bytes = disk.read(&ManagedPath::constant(PENDING), PENDING_BYTES)?;
    Ok(bytes.map(|bytes| Pending::parse(&bytes)).transpose()?)
}

/// Writes it in place of the one before, durably.
pub(super) fn open(disk: &dyn Disk, intent: &Intent) -> Result<(), HostError> {
    write(disk, &intent.render())
}

fn write(disk: &dyn Disk, contents: &[u8]) -> Result<(), HostError> {
    let (new, pending) = (ManagedPath::constant(NEW_PENDING), ManagedPath::constant(PENDING));
    forget(disk, &new)?;
    disk.create_file(&new, contents, ATTRIBUTES, None)?;
    disk.sync(&[Some(new.clone())])?;
    if disk.status(&pending)?.is_some() {
        disk.exchange(&new, &pending)?;
        disk.sync(&[new.parent()])?;
        return disk.remove_file(&new);
    }
    disk.rename(&new, &pending)?;
    disk.sync(&[new.parent()])
}

/// Notes durably that something happened to it.
pub(super) fn reach(disk: &dyn Disk, reached: &Reached) -> Result<(), HostError> {
    let pending = ManagedPath::constant(PENDING);
    let written = disk.read(&pending, PENDING_BYTES)?.unwrap_or_default();
    let whole = written.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
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
pub(super) fn close(disk: &dyn Disk) -> Result<(), HostError> {
    forget(disk, &ManagedPath::constant(PENDING))?;
    forget(disk, &ManagedPath::constant(NEW_PENDING))?;
    disk.sync(&[ManagedPath::constant(PENDING).parent()])
}

fn forget(disk: &dyn Disk, path: &ManagedPath) -> Result<(), HostError> {
    match disk.status(path)? {
        Some(_) => disk.remove_file(path),
        None => Ok(()),
    }
}
