//! The port between a transaction and a file system: what it looks at, and the only acts that
//! change the host. Each act is one change, asked for one at a time, so that a test can count them,
//! stop between any two, make any of them fail, or lose those that were not flushed.

use crate::core::values::names::ManagedPath;
use crate::core::values::tree::{FileAttributes, FileKind};
use crate::host::fs::error::HostError;

/// What tells a thing on a disk apart, without what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStatus {
    /// Its type.
    pub kind: FileKind,
    /// Mode and owner.
    pub attributes: FileAttributes,
    /// Its number: two names of one thing share it, and a rename keeps it.
    pub inode: u64,
}

/// A directory tree. No call follows a symbolic link at its path; those above it are followed only
/// where they stay in the tree and nobody but the owner of the tree can have put them there.
pub trait HostDisk {
    /// What stands at `path`; `None` where nothing does.
    fn status(&self, path: &ManagedPath) -> Result<Option<FileStatus>, HostError>;
    /// The content of the regular file at `path`, at most `limit` bytes; `None` where nothing or
    /// something else stands there.
    fn read(&self, path: &ManagedPath, limit: usize) -> Result<Option<Vec<u8>>, HostError>;
    /// What the symbolic link at `path` points to; `None` where no link stands.
    fn link_target(&self, path: &ManagedPath) -> Result<Option<String>, HostError>;
    /// The SELinux label of what stands at `path`; `None` where it has none.
    fn label(&self, path: &ManagedPath) -> Result<Option<Vec<u8>>, HostError>;
    /// The SELinux label of the directory that `path` leads to, through links if need be; `None`
    /// where it leads to none, or that has no label.
    fn directory_label(&self, path: &ManagedPath) -> Result<Option<Vec<u8>>, HostError>;
    /// Everything below the directory at `path`, parents before children; nothing where no
    /// directory stands. A name that no path can spell is an error: it must not be overlooked.
    fn below(&self, path: &ManagedPath) -> Result<Vec<ManagedPath>, HostError>;
    /// A number that two directories share exactly when a file can be renamed between them.
    /// Without a directory, the root's own.
    fn mount(&self, directory: Option<&ManagedPath>) -> Result<u64, HostError>;
    /// The directories below the root at which other file systems are mounted.
    fn mount_points(&self) -> Result<Vec<ManagedPath>, HostError>;

    /// Makes a directory with these attributes and this label.
    fn make_directory(
        &self,
        path: &ManagedPath,
        attributes: FileAttributes,
        label: Option<&[u8]>,
    ) -> Result<(), HostError>;
    /// Gives a directory these attributes.
    fn set_attributes(&self, path: &ManagedPath, attributes: FileAttributes) -> Result<(), HostError>;
    /// Makes a new file with all that it will ever be: content, mode, owner and label. Nobody else
    /// can read it before it has them.
    fn create_file(
        &self,
        path: &ManagedPath,
        contents: &[u8],
        attributes: FileAttributes,
        label: Option<&[u8]>,
    ) -> Result<(), HostError>;
    /// Makes a new symbolic link.
    fn create_symlink(
        &self,
        path: &ManagedPath,
        target: &str,
        owner: (u32, u32),
        label: Option<&[u8]>,
    ) -> Result<(), HostError>;
    /// Gives the file or link at `from` a second name.
    fn hard_link(&self, from: &ManagedPath, to: &ManagedPath) -> Result<(), HostError>;
    /// Adds to the end of a file, whose content so far stays as it is.
    fn append(&self, path: &ManagedPath, bytes: &[u8]) -> Result<(), HostError>;
    /// Moves `from` to `to`, where nothing stands.
    fn rename(&self, from: &ManagedPath, to: &ManagedPath) -> Result<(), HostError>;
    /// Swaps what stands at two paths, atomically.
    fn exchange(&self, a: &ManagedPath, b: &ManagedPath) -> Result<(), HostError>;
    /// Removes a file or link.
    fn remove_file(&self, path: &ManagedPath) -> Result<(), HostError>;
    /// Removes files and links, in whatever order.
    fn remove_files(&self, paths: &[ManagedPath]) -> Result<(), HostError> {
        paths.iter().try_for_each(|path| self.remove_file(path))
    }
    /// Removes an empty directory.
    fn remove_directory(&self, path: &ManagedPath) -> Result<(), HostError>;
    /// Makes files and directories durable: of a file its content and attributes, of a directory
    /// its attributes and the names in it; `None` is the root's own. All are durable on return, in
    /// whatever order they became so. What is gone has nothing to lose and is passed over.
    fn sync(&self, paths: &[Option<ManagedPath>]) -> Result<(), HostError>;
}
