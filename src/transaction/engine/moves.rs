//! Acts: single renames that make a change visible, and their undoing. The slot of an act tells if it was
//! performed, so undoing can be repeated after any interruption.

use rustix::io::Errno;

use crate::core::state::journal::JournalMove;
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::FileKind;
use crate::host::fs::account_lock::is_account_file;
use crate::host::{FileOperation, FileStatus, HostDisk, HostError};

/// Perform an act of this process's own change.
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
            // Another program created the directory just before the rename.
            disk.rename(slot, path)?;
            Err(in_the_way(path))
        }
        JournalMove::RemoveDirectory { path, slot } => remove_directory(disk, path, slot),
        JournalMove::SetAttributes { path, after, .. } => disk.set_attributes(path, *after),
    }
}

/// Undo an act; does nothing if it was not performed.
pub(crate) fn undo(disk: &dyn HostDisk, act: &JournalMove) -> Result<(), HostError> {
    match act {
        JournalMove::Replace { path, slot, inode } => match disk.status(slot)? {
            // Another program changed users or passwords since: its entries would be lost.
            Some(status) if status.inode != *inode && is_replaced(disk, path, *inode)? => {
                log::warn!("{path} was changed by another program and stays as it is");
                Ok(())
            }
            Some(status) if status.inode != *inode => put_back(disk, slot, path),
            _ => Ok(()),
        },
        JournalMove::Create { path, slot } => match (disk.status(slot)?, disk.status(path)?) {
            (None, Some(status)) if status.kind != FileKind::Directory => {
                disk.rename(path, slot)?;
                // Another program replaced the file by a directory just before the rename.
                if is_directory(disk, slot)? { disk.rename(slot, path) } else { Ok(()) }
            }
            _ => Ok(()),
        },
        // Files of other programs in the directory keep it in place.
        JournalMove::MakeDirectory { path, slot } => match disk.status(slot)? {
            None => remove_directory(disk, path, slot),
            Some(_) => Ok(()),
        },
        JournalMove::Remove { path, slot } => match disk.status(slot)? {
            Some(_) => put_back(disk, slot, path),
            None => Ok(()),
        },
        JournalMove::RemoveDirectory { path, slot } => match (disk.status(slot)?, disk.status(path)?) {
            // Another program created the directory again, perhaps with files in it.
            (Some(before), Some(found)) if found.kind == FileKind::Directory => {
                disk.set_attributes(path, before.attributes)
            }
            (Some(_), _) => put_back(disk, slot, path),
            (None, _) => Ok(()),
        },
        JournalMove::SetAttributes { path, before, .. } => match disk.status(path)? {
            Some(status)
                if matches!(status.kind, FileKind::Directory | FileKind::File)
                    && status.attributes != *before =>
            {
                disk.set_attributes(path, *before)
            }
            _ => Ok(()),
        },
    }
}

/// Return true if another program wrote the account file at `path` after this one put `inode` there.
fn is_replaced(disk: &dyn HostDisk, path: &ManagedPath, inode: u64) -> Result<bool, HostError> {
    Ok(is_account_file(path)
        && disk.status(path)?.is_some_and(|found| found.kind == FileKind::File && found.inode != inode))
}

/// Move the content of a slot back to its path. A file that another program created there is replaced, a
/// directory is an error: its content would be lost with the slot.
fn put_back(disk: &dyn HostDisk, slot: &ManagedPath, path: &ManagedPath) -> Result<(), HostError> {
    if disk.status(path)?.is_none() {
        return disk.rename(slot, path);
    }
    ensure_leaf(disk, path)?;
    exchange(disk, slot, path)
}

/// Exchange a slot with a file or link. Slots are deleted at the end; a directory that another program
/// created just before the exchange is therefore moved back, with all its content.
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

/// Move a directory to its slot, unless it contains files of other programs.
fn remove_directory(disk: &dyn HostDisk, path: &ManagedPath, slot: &ManagedPath) -> Result<(), HostError> {
    let Some(status) = disk.status(path)? else { return Ok(()) };
    if !is_empty_directory(disk, path, status)? {
        return Ok(());
    }
    match disk.rename(path, slot) {
        // Mount points stay in place.
        Err(error) if error.errno() == Some(Errno::BUSY) => return Ok(()),
        moved => moved?,
    }
    // Another program may have created a file in it just before the rename.
    if disk.below(slot)?.is_empty() { Ok(()) } else { disk.rename(slot, path) }
}
