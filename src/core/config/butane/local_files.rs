//! Files that a Butane config names by `local`, below a directory that is given beside it.

use std::fmt;
use std::path::{Component, Path};

/// Directory of the files that a config names.
pub trait LocalFiles: fmt::Debug {
    /// Read a file by its path below the directory.
    fn read(&self, path: &str) -> Result<Vec<u8>, LocalFileError>;

    /// List all below a directory in it, each directory by name and before its content.
    fn tree(&self, path: &str) -> Result<Vec<LocalEntry>, LocalFileError>;
}

/// File, directory or link of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalEntry {
    /// Relative to the tree.
    pub path: String,
    pub node: LocalNode,
}

/// Node of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalNode {
    Directory,
    File { contents: Vec<u8>, is_executable: bool },
    Link { target: String },
}

/// Failure to read a file that a config names.
#[derive(Debug, thiserror::Error)]
pub enum LocalFileError {
    /// The config came without a directory, on standard input or from a server.
    #[error(
        "there is no directory of local files for standard input and for a server's answer; give the config as a file beside them, or put the contents into it as `inline`"
    )]
    NoDirectory,
    /// An absolute path, or one with `..`.
    #[error("the path leads outside the directory of local files; give one below it")]
    Outside,
    /// A missing or unreadable file, or one that users other than root can change.
    #[error("{0}")]
    Unreadable(String),
    /// A tree with a device, a socket or a pipe.
    #[error("{0} is neither a file nor a directory nor a link")]
    Special(String),
    /// Files above the limit on the contents of a config.
    #[error("the local files exceed {} bytes", crate::core::values::limits::INFLATED_BYTES)]
    TooLarge,
    /// A tree above the limit on the entries of a config.
    #[error("the tree has more than {} files and links", crate::core::values::limits::STORAGE_ENTRIES)]
    TooMany,
}

/// No directory at all.
#[derive(Debug, Clone, Copy)]
pub struct NoLocalFiles;

impl LocalFiles for NoLocalFiles {
    fn read(&self, _path: &str) -> Result<Vec<u8>, LocalFileError> {
        Err(LocalFileError::NoDirectory)
    }

    fn tree(&self, _path: &str) -> Result<Vec<LocalEntry>, LocalFileError> {
        Err(LocalFileError::NoDirectory)
    }
}

/// Check that a path, as a config spells it, stays below the directory.
pub(super) fn ensure_beneath(path: &str) -> Result<(), LocalFileError> {
    let is_beneath =
        Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if is_beneath && !path.is_empty() && !path.contains('\0') { Ok(()) } else { Err(LocalFileError::Outside) }
}
