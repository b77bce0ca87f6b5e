//! One visible act, and its way back. Whether an act was carried out is read off its slot, so that
//! either can be asked for at any time, any number of times.

use rustix::io::Errno;

use crate::core::state::journal::JournalMove;
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::FileKind;
use crate::host::{FileOperation, FileStatus, HostDisk, HostError};

/// Carries out an act of this process's own transaction.
pub(crate) fn perform(disk: &dyn HostDisk, act: &JournalMove) -> Result<(), HostError> {
    match act {
        JournalMove::Replace { path, slot, .. } => {
            ensure_leaf(disk, path)?;
            exchange(disk, slot, path)
        }
        JournalMove::Create { path, slot } | JournalMove::MakeDirectory { path, slot } => {
            disk.rename(slot, path)
        }
        JournalMove::Remove { path, slot } => {
            ensure_leaf(disk, path)?;
            disk.rename(path, slot)?;
            if !is_directory(disk, slot)? {
                return Ok(());
            }
            // It came just before the leaf went.
            disk.rename(slot, path)?;
            Err(in_the_way(path))
        }
        JournalMove::RemoveDirectory { path, slot } => remove_directory(disk, path, slot),
        JournalMove::SetAttributes { path, after, .. } => disk.set_attributes(path, *after),
    }
}

/// Takes an act back, or does nothing where it was not carried out.
pub(crate) fn undo(disk: &dyn HostDisk, act: &JournalMove) -> Result<(), HostError> {
    match act {
        JournalMove::Replace { path, slot, inode } => match disk.status(slot)? {
            Some(status) if status.inode != *inode => put_back(disk, slot, path),
            _ => Ok(()),
        },
        JournalMove::Create { path, slot } => match (disk.status(slot)?, disk.status(path)?) {
            (None, Some(status)) if status.kind != FileKind::Directory => {
                disk.rename(path, slot)?;
                // Somebody else's directory came just before the leaf went.
                if is_directory(disk, slot)? { disk.rename(slot, path) } else { Ok(()) }
            }
            _ => Ok(()),
        },
        // What somebody else put into it meanwhile is theirs.
        JournalMove::MakeDirectory { path, slot } => match disk.status(slot)? {
            None => remove_directory(disk, path, slot),
            Some(_) => Ok(()),
        },
        JournalMove::Remove { path, slot } => match disk.status(slot)? {
            Some(_) => put_back(disk, slot, path),
            None => Ok(()),
        },
        JournalMove::RemoveDirectory { path, slot } => match (disk.status(slot)?, disk.status(path)?) {
            // Somebody made it again, and may have put something into it.
            (Some(before), Some(found)) if found.kind == FileKind::Directory => {
                disk.set_attributes(path, before.attributes)
            }
            (Some(_), _) => put_back(disk, slot, path),
            (None, _) => Ok(()),
        },
        JournalMove::SetAttributes { path, before, .. } => match disk.status(path)? {
            Some(status) if status.kind == FileKind::Directory && status.attributes != *before => {
                disk.set_attributes(path, *before)
            }
            _ => Ok(()),
        },
    }
}

/// Somebody else's directory is never left in a slot; a leaf that came meanwhile goes.
fn put_back(disk: &dyn HostDisk, slot: &ManagedPath, path: &ManagedPath) -> Result<(), HostError> {
    if disk.status(path)?.is_none() {
        return disk.rename(slot, path);
    }
    ensure_leaf(disk, path)?;
    exchange(disk, slot, path)
}

/// Swaps what waits in a slot with a leaf. What takes a slot is deleted in the end, and a directory
/// may hold anything: one that came just before the swap is put back.
fn exchange(disk: &dyn HostDisk, slot: &ManagedPath, path: &ManagedPath) -> Result<(), HostError> {
    disk.exchange(slot, path)?;
    if !is_directory(disk, slot)? {
        return Ok(());
    }
    disk.exchange(slot, path)?;
    Err(in_the_way(path))
}

fn ensure_leaf(disk: &dyn HostDisk, path: &ManagedPath) -> Result<(), HostError> {
    if is_directory(disk, path)? { Err(in_the_way(path)) } else { Ok(()) }
}

fn is_directory(disk: &dyn HostDisk, path: &ManagedPath) -> Result<bool, HostError> {
    Ok(disk.status(path)?.is_some_and(|status| status.kind == FileKind::Directory))
}

fn in_the_way(path: &ManagedPath) -> HostError {
    HostError::new(FileOperation::Rename, path.as_str(), Errno::ISDIR)
}

fn is_empty_directory(
    disk: &dyn HostDisk,
    path: &ManagedPath,
    status: FileStatus,
) -> Result<bool, HostError> {
    Ok(status.kind == FileKind::Directory && disk.below(path)?.is_empty())
}

/// Moves a directory away unless somebody keeps something in it.
fn remove_directory(disk: &dyn HostDisk, path: &ManagedPath, slot: &ManagedPath) -> Result<(), HostError> {
    let Some(status) = disk.status(path)? else { return Ok(()) };
    if !is_empty_directory(disk, path, status)? {
        return Ok(());
    }
    match disk.rename(path, slot) {
        // A mount point stays where it is.
        Err(error) if error.errno() == Some(Errno::BUSY) => return Ok(()),
        moved => moved?,
    }
    // Somebody may have put something into it just before it went.
    if disk.below(slot)?.is_empty() { Ok(()) } else { disk.rename(slot, path) }
}
