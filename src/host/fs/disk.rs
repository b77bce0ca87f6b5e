//! Port between a transaction and a file system: reads, and the only operations that change the host. Each
//! operation is a single change, so that a test can count operations, stop between any two, make one fail, or
//! lose those that were not synced.

use crate::core::values::names::ManagedPath;
use crate::core::values::tree::{FileAttributes, FileKind};
use crate::host::fs::account_lock::AccountLock;
use crate::host::fs::error::HostError;

/// Metadata of a file, directory or link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStatus {
    pub kind: FileKind,
    pub attributes: FileAttributes,
    /// Inode number: shared by hard links, and kept by a rename.
    pub inode: u64,
}

/// Queue for paths that are complete and have to be synced; `None` is the root directory.
pub type SyncQueue<'a> = dyn FnMut(Option<ManagedPath>) + 'a;

/// Directory tree. No method follows a symbolic link at its path. A link above the path is followed only if
/// it stays in the tree and only the tree's owner can have created it.
pub trait HostDisk {
    /// Return the status of `path`; `None` if it does not exist.
    fn status(&self, path: &ManagedPath) -> Result<Option<FileStatus>, HostError>;
    /// Read the regular file at `path`; `None` if it does not exist or is not a regular file. Fails if the
    /// file exceeds `limit` bytes.
    fn read(&self, path: &ManagedPath, limit: usize) -> Result<Option<Vec<u8>>, HostError>;
    /// Return the target of the symbolic link at `path`; `None` if it is no symbolic link.
    fn link_target(&self, path: &ManagedPath) -> Result<Option<String>, HostError>;
    /// Return the SELinux label of `path`; `None` without a label.
    fn label(&self, path: &ManagedPath) -> Result<Option<Vec<u8>>, HostError>;
    /// Return the SELinux label of the directory at `path`, following links; `None` without a directory or
    /// label.
    fn directory_label(&self, path: &ManagedPath) -> Result<Option<Vec<u8>>, HostError>;
    /// List everything below the directory at `path`, parents before children; nothing if it is no directory.
    /// A name that cannot be written in a path is an error: skipping it could lose data.
    fn below(&self, path: &ManagedPath) -> Result<Vec<ManagedPath>, HostError>;
    /// Return an ID of the mount that holds `directory`, or the root without one. A file can be renamed
    /// between two directories exactly if their IDs are equal.
    fn mount(&self, directory: Option<&ManagedPath>) -> Result<u64, HostError>;
    /// Return true if `directory` is on a file system in memory that a reboot empties, other than that of `/var`, where the
    /// journal is.
    fn is_volatile(&self, directory: &ManagedPath) -> Result<bool, HostError>;
    /// List the directories below the root where other file systems are mounted.
    fn mount_points(&self) -> Result<Vec<ManagedPath>, HostError>;

    /// Take the lock under which other programs change users and passwords, from reading these files until
    /// they are replaced. Waits for it for a limited time.
    fn lock_accounts(&self) -> Result<AccountLock, HostError>;

    /// Create a directory with these attributes and this label.
    fn make_directory(
        &self,
        path: &ManagedPath,
        attributes: FileAttributes,
        label: Option<&[u8]>,
    ) -> Result<(), HostError>;
    /// Set mode and owner of a directory or regular file.
    fn set_attributes(&self, path: &ManagedPath, attributes: FileAttributes) -> Result<(), HostError>;
    /// Create a file with its final content, mode, owner and label. No other user can read it before these
    /// are set.
    fn create_file(
        &self,
        path: &ManagedPath,
        contents: &[u8],
        attributes: FileAttributes,
        label: Option<&[u8]>,
    ) -> Result<(), HostError>;
    fn create_symlink(
        &self,
        path: &ManagedPath,
        target: &str,
        owner: (u32, u32),
        label: Option<&[u8]>,
    ) -> Result<(), HostError>;
    /// Create the hard link `to` to the file or symbolic link `from`.
    fn hard_link(&self, from: &ManagedPath, to: &ManagedPath) -> Result<(), HostError>;
    /// Append to a file.
    fn append(&self, path: &ManagedPath, bytes: &[u8]) -> Result<(), HostError>;
    /// Rename `from` to `to`. Fails if `to` exists.
    fn rename(&self, from: &ManagedPath, to: &ManagedPath) -> Result<(), HostError>;
    /// Exchange two paths atomically.
    fn exchange(&self, a: &ManagedPath, b: &ManagedPath) -> Result<(), HostError>;
    /// Remove a file or symbolic link.
    fn remove_file(&self, path: &ManagedPath) -> Result<(), HostError>;
    /// Remove files and symbolic links, in any order.
    fn remove_files(&self, paths: &[ManagedPath]) -> Result<(), HostError> {
        paths.iter().try_for_each(|path| self.remove_file(path))
    }
    fn remove_directory(&self, path: &ManagedPath) -> Result<(), HostError>;
    /// Sync files and directories: the content and attributes of a file; the attributes and entries of a
    /// directory; `None` is the root directory. All are durable on return, but the order in which they become
    /// durable is undefined. Missing paths are skipped.
    fn sync(&self, paths: &[Option<ManagedPath>]) -> Result<(), HostError>;
    /// Run `write` once and sync the paths that it passes on, each as [`sync`](Self::sync) does, possibly while `write` goes on. A
    /// path is passed on when it is complete.
    fn sync_alongside(&self, write: &mut dyn FnMut(&mut SyncQueue<'_>)) -> Result<(), HostError> {
        let mut complete = Vec::new();
        write(&mut |path| complete.push(path));
        self.sync(&complete)
    }
}
