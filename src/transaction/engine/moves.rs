//! Moves: single renames that make a change visible, and their undoing. The slot of a move tells if it was
//! performed, so undoing can be repeated after any interruption.

use rustix::io::Errno;

use crate::core::state::journal::{JournalMove, StagedContent};
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::{ContentDigest, FileKind};
use crate::host::fs::account_lock::is_account_file;
use crate::host::{FileOperation, FileStatus, HostDisk, HostError};

/// Maximum size of a file whose content tells it from its pre-image.
const COMPARED_BYTES: usize = 16 << 20;

/// Perform a move of this process's own change.
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

/// Undo a move; does nothing if it was not performed. `is_copy` is true if the tree was copied since the move was
/// staged: its files have other inodes.
pub(crate) fn undo(disk: &dyn HostDisk, act: &JournalMove, is_copy: bool) -> Result<(), HostError> {
    match act {
        JournalMove::Replace { path, slot, inode, content } => {
            let staged = match content {
                Some(content) if is_copy => StagedFile::Content(*content),
                _ => StagedFile::Inode(*inode),
            };
            undo_replace(disk, path, slot, staged)
        }
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

/// Means to tell a staged file from its pre-image.
#[derive(Clone, Copy)]
enum StagedFile {
    Inode(u64),
    /// Content and attributes, in a copy of the tree.
    Content(StagedContent),
}

impl StagedFile {
    /// Return true if the file at `path`, which has `status`, is the staged one.
    fn is_at(self, disk: &dyn HostDisk, path: &ManagedPath, status: FileStatus) -> Result<bool, HostError> {
        match self {
            Self::Inode(inode) => Ok(status.inode == inode),
            Self::Content(StagedContent { digest, attributes }) => {
                Ok(status.attributes == attributes && content_digest(disk, path)? == Some(digest))
            }
        }
    }
}

fn undo_replace(
    disk: &dyn HostDisk,
    path: &ManagedPath,
    slot: &ManagedPath,
    staged: StagedFile,
) -> Result<(), HostError> {
    let Some(status) = disk.status(slot)? else { return Ok(()) };
    if staged.is_at(disk, slot, status)? {
        return Ok(());
    }
    match disk.status(path)? {
        // Another program changed users or passwords since: its entries would be lost.
        Some(found)
            if is_account_file(path)
                && found.kind == FileKind::File
                && !staged.is_at(disk, path, found)? =>
        {
            log::warn!("{path} was changed by another program and stays as it is");
            Ok(())
        }
        _ => put_back(disk, slot, path),
    }
}

/// Compute the digest of a file's content or of a link's target; `None` of anything else, and of a file that is too
/// large to be compared.
pub(crate) fn content_digest(
    disk: &dyn HostDisk,
    path: &ManagedPath,
) -> Result<Option<ContentDigest>, HostError> {
    if let Some(target) = disk.link_target(path)? {
        return Ok(Some(ContentDigest::of(target.as_bytes())));
    }
    match disk.read(path, COMPARED_BYTES) {
        Err(HostError::TooLarge { .. }) => Ok(None),
        read => Ok(read?.map(|contents| ContentDigest::of(&contents))),
    }
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
