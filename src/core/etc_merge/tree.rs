//! Tree of an `/etc`, with all properties that libostree's merge compares or copies: types, permission bits,
//! owners, contents and extended attributes.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path};

use crate::core::values::tree::{ContentDigest, FileAttributes};

/// Digest of each extended attribute's value, by attribute name. SELinux labels and attributes made up by
/// file systems are left out (see [`is_foreign`](crate::core::values::xattrs::is_foreign)), since no merge
/// copies them.
pub type XattrDigests = BTreeMap<Vec<u8>, ContentDigest>;

/// Entries of a directory, by name.
pub type EtcEntries = BTreeMap<OsString, EtcNode>;

/// File, link, directory or special file. A whole tree is the node of its top directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcNode {
    /// Permission bits and owner.
    pub attributes: FileAttributes,
    pub xattrs: XattrDigests,
    pub body: EtcBody,
}

/// Type of a node, with its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EtcBody {
    File(FileContent),
    /// Symbolic link with its target, as stored.
    Symlink(OsString),
    Directory(EtcEntries),
    /// Device, socket or pipe; the value is `st_mode & S_IFMT`.
    Special(u32),
}

/// Content of a regular file. Trees to be compared are read together: files of equal path and size have a
/// digest each, unless they are the same inode; all other files are told apart by their sizes and need none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileContent {
    /// Size in bytes.
    pub size: u64,
    /// Digest; `None` where no compared tree has another inode of this size at the path.
    pub digest: Option<ContentDigest>,
}

/// File types that libostree's comparison distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EtcType {
    File,
    Symlink,
    Directory,
    Special,
}

impl EtcNode {
    /// Return the directory's entries; `None` for other types.
    #[must_use]
    pub fn entries(&self) -> Option<&EtcEntries> {
        match &self.body {
            EtcBody::Directory(entries) => Some(entries),
            _ => None,
        }
    }

    pub(super) fn entries_mut(&mut self) -> Option<&mut EtcEntries> {
        match &mut self.body {
            EtcBody::Directory(entries) => Some(entries),
            _ => None,
        }
    }

    pub(super) fn is_directory(&self) -> bool {
        self.entries().is_some()
    }

    /// Return the node at `path` below this directory. Links are not followed.
    #[must_use]
    pub fn at(&self, path: &Path) -> Option<&Self> {
        names(path).try_fold(self, |node, name| node.entries()?.get(name))
    }

    /// Return the node at `path` below this directory for modification. Links are not followed.
    pub fn at_mut(&mut self, path: &Path) -> Option<&mut Self> {
        names(path).try_fold(self, |node, name| node.entries_mut()?.get_mut(name))
    }

    pub(super) fn kind(&self) -> EtcType {
        match self.body {
            EtcBody::File(_) => EtcType::File,
            EtcBody::Symlink(_) => EtcType::Symlink,
            EtcBody::Directory(_) => EtcType::Directory,
            EtcBody::Special(_) => EtcType::Special,
        }
    }

    /// Return true if type and content or target are equal; entries of directories are not compared.
    pub(super) fn has_body_of(&self, other: &Self) -> bool {
        (self.is_directory() && other.is_directory()) || self.body == other.body
    }

    /// Return true if libostree's comparison finds both equal; extended attributes are not compared.
    pub(super) fn passes_for(&self, other: &Self) -> bool {
        self.attributes == other.attributes && self.has_body_of(other)
    }

    /// Return true if both are equal except for the entries of directories.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.passes_for(other) && self.xattrs == other.xattrs
    }
}

/// Split a relative path into its components.
pub(super) fn names(path: &Path) -> impl Iterator<Item = &OsStr> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        _ => None,
    })
}
