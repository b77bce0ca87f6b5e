//! An `/etc` as libostree's merge sees it: types, permission bits, owners, contents and extended attributes.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path};

use crate::core::values::tree::{ContentDigest, FileAttributes};

/// Extended attributes: the digest of each value by its name. Labels and what a file system shows of itself are
/// left out (see [`is_foreign`](crate::core::values::xattrs::is_foreign)): a policy gives labels, no merge does.
pub type XattrDigests = BTreeMap<Vec<u8>, ContentDigest>;

/// What a directory holds, by name.
pub type EtcEntries = BTreeMap<OsString, EtcNode>;

/// What stands at a path. A whole tree is the node of its top directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcNode {
    /// Permission bits and owner.
    pub attributes: FileAttributes,
    /// Extended attributes.
    pub xattrs: XattrDigests,
    /// What it is.
    pub body: EtcBody,
}

/// What a node is, and what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EtcBody {
    /// A regular file.
    File(FileContent),
    /// A symbolic link and where it leads, as stored.
    Symlink(OsString),
    /// A directory.
    Directory(EtcEntries),
    /// A device, socket or pipe; which one, `st_mode & S_IFMT` tells.
    Special(u32),
}

/// The content of a regular file, read no further than comparing needs: in trees that are to be compared, files of
/// one path and one size have a digest each, unless they are one and the same inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileContent {
    /// In bytes.
    pub size: u64,
    /// `None` where nothing to compare with has this size and another inode.
    pub digest: Option<ContentDigest>,
}

/// The types that libostree's comparison tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EtcType {
    File,
    Symlink,
    Directory,
    Special,
}

impl EtcNode {
    /// What the directory holds; nothing where this is no directory.
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

    /// What stands at `path` below this directory, no link followed.
    #[must_use]
    pub fn at(&self, path: &Path) -> Option<&Self> {
        names(path).try_fold(self, |node, name| node.entries()?.get(name))
    }

    /// What stands at `path` below this directory, no link followed, to be changed.
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

    /// Whether both are of one type with equal content or target; what directories hold does not count.
    pub(super) fn has_body_of(&self, other: &Self) -> bool {
        (self.is_directory() && other.is_directory()) || self.body == other.body
    }

    /// Whether libostree's comparison takes them for equal: it ignores extended attributes.
    pub(super) fn passes_for(&self, other: &Self) -> bool {
        self.attributes == other.attributes && self.has_body_of(other)
    }

    /// Whether nothing tells them apart but what directories hold.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.passes_for(other) && self.xattrs == other.xattrs
    }
}

/// The components of a relative path.
pub(super) fn names(path: &Path) -> impl Iterator<Item = &OsStr> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        _ => None,
    })
}
