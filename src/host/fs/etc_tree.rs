//! Reader of the trees that go into libostree's merge of `/etc`. Read-only; follows no symbolic link below
//! the top, and accepts every name and file type.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, Stat};
use rustix::io::Errno;
use sha2::Digest as _;

use crate::core::etc_merge::{EtcBody, EtcEntries, EtcNode, FileContent};
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::{ContentDigest, FileAttributes};
use crate::host::fs::error::{FileOperation, HostError};
use crate::host::fs::path_state::errno_of;
use crate::host::fs::root::Root;
use crate::host::fs::xattrs;

/// Maximum depth: a file descriptor is open for each level.
const DEPTH: usize = 200;

/// Device and inode number.
type Inode = (u64, u64);

/// Tree of nodes, with access to the contents of its files.
#[derive(Debug)]
pub struct EtcTree {
    top: OwnedFd,
    place: ManagedPath,
    node: EtcNode,
    inodes: BTreeMap<PathBuf, Inode>,
}

impl EtcTree {
    /// Read everything below the directory at `place` except the contents of files.
    pub fn read(root: &Root, place: &ManagedPath) -> Result<Self, HostError> {
        let failed = |errno| HostError::new(FileOperation::List, place.as_str(), errno);
        let found = root.directory(place).map_err(failed)?;
        let top = open_directory(&found, OsStr::new(".")).map_err(failed)?;
        let stat = rustix::fs::fstat(&top).map_err(failed)?;
        let xattrs = xattrs::given(&through(&top, OsStr::new("."))).map_err(failed)?;
        let mut reader = Reader { place, inodes: BTreeMap::new() };
        let entries = reader.entries(&top, Path::new(""), 0)?;
        let node = EtcNode { attributes: attributes(&stat), xattrs, body: EtcBody::Directory(entries) };
        let inodes = reader.inodes;
        Ok(Self { top, place: place.clone(), node, inodes })
    }

    /// Return the tree. Files have no digest before [`digest_where_needed`].
    #[must_use]
    pub fn node(&self) -> &EtcNode {
        &self.node
    }

    /// Compute the digest of the file at `path`; `None` if it was removed since the tree was read.
    fn digest(&self, path: &Path) -> Result<Option<ContentDigest>, HostError> {
        let failed =
            |errno| HostError::new(FileOperation::Read, &format!("{}/{}", self.place, path.display()), errno);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let file = match rustix::fs::openat2(&self.top, path, flags, Mode::empty(), resolve) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO) => return Ok(None),
            file => file.map_err(failed)?,
        };
        let stat = rustix::fs::fstat(&file).map_err(failed)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(None);
        }
        let mut hasher = sha2::Sha256::new();
        let copied = std::io::copy(&mut File::from(file), &mut hasher);
        copied.map_err(|error| failed(errno_of(&error)))?;
        Ok(Some(ContentDigest::from_sha256(hasher.finalize().into())))
    }
}

/// Compute the digests of files that have the same path and size but different inodes in several trees. The
/// merge needs no others: files of different sizes differ, and most files of two deployments are hard links
/// of one inode.
pub fn digest_where_needed(trees: &mut [&mut EtcTree]) -> Result<(), HostError> {
    let mut known: BTreeMap<Inode, Option<ContentDigest>> = BTreeMap::new();
    let needed: Vec<Vec<PathBuf>> = (0..trees.len()).map(|index| needing(trees, index)).collect();
    for (tree, paths) in trees.iter_mut().zip(needed) {
        for path in paths {
            let inode = tree.inodes.get(&path).copied().unwrap_or_default();
            let digest = match known.get(&inode) {
                Some(digest) => *digest,
                None => tree.digest(&path)?,
            };
            known.insert(inode, digest);
            set_digest(&mut tree.node, &path, digest);
        }
    }
    Ok(())
}

/// List the files of one tree that another one has with the same size but a different inode.
fn needing(trees: &[&mut EtcTree], index: usize) -> Vec<PathBuf> {
    let Some(tree) = trees.get(index) else { return Vec::new() };
    let size = |tree: &EtcTree, path: &Path| match tree.node.at(path)?.body {
        EtcBody::File(content) => Some(content.size),
        _ => None,
    };
    let is_needed = |path: &&PathBuf| {
        let here = (size(tree, path), tree.inodes.get(*path));
        trees.iter().any(|other| size(other, path) == here.0 && other.inodes.get(*path) != here.1)
    };
    tree.inodes.keys().filter(is_needed).cloned().collect()
}

fn set_digest(node: &mut EtcNode, path: &Path, digest: Option<ContentDigest>) {
    if let Some(EtcNode { body: EtcBody::File(content), .. }) = node.at_mut(path) {
        content.digest = digest;
    }
}

struct Reader<'a> {
    place: &'a ManagedPath,
    inodes: BTreeMap<PathBuf, Inode>,
}

impl Reader<'_> {
    fn entries(&mut self, directory: &OwnedFd, path: &Path, depth: usize) -> Result<EtcEntries, HostError> {
        let failed = |errno| self.failed(FileOperation::List, path, errno);
        if depth > DEPTH {
            return Err(failed(Errno::NAMETOOLONG));
        }
        let mut entries = EtcEntries::new();
        for name in list(directory).map_err(failed)? {
            let path = path.join(&name);
            // On a running host a file may be removed after it was listed.
            match self.node(directory, &name, &path, depth) {
                Err(error) if error.errno() == Some(Errno::NOENT) => {}
                node => drop(entries.insert(name, node?)),
            }
        }
        Ok(entries)
    }

    fn node(
        &mut self,
        directory: &OwnedFd,
        name: &OsStr,
        path: &Path,
        depth: usize,
    ) -> Result<EtcNode, HostError> {
        let failed = |errno| self.failed(FileOperation::Read, path, errno);
        let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        let xattrs = xattrs::given(&through(directory, name)).map_err(failed)?;
        let body = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                self.inodes.insert(path.to_owned(), (stat.st_dev, stat.st_ino));
                EtcBody::File(FileContent {
                    size: u64::try_from(stat.st_size).unwrap_or_default(),
                    digest: None,
                })
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(directory, name, Vec::new()).map_err(failed)?;
                EtcBody::Symlink(OsStr::from_bytes(target.as_bytes()).to_owned())
            }
            FileType::Directory => {
                let opened = open_directory(directory, name).map_err(failed)?;
                EtcBody::Directory(self.entries(&opened, path, depth + 1)?)
            }
            other => EtcBody::Special(other.as_raw_mode()),
        };
        Ok(EtcNode { attributes: attributes(&stat), xattrs, body })
    }

    fn failed(&self, op: FileOperation, path: &Path, errno: Errno) -> HostError {
        HostError::new(op, &format!("{}/{}", self.place, path.display()), errno)
    }
}

fn open_directory(parent: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}

fn list(directory: &OwnedFd) -> Result<Vec<OsString>, Errno> {
    let mut names = Vec::new();
    let mut buffer = Vec::with_capacity(32 << 10);
    let mut entries = RawDir::new(directory, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    Ok(names)
}

fn attributes(stat: &Stat) -> FileAttributes {
    FileAttributes { mode: stat.st_mode & 0o7777, uid: stat.st_uid, gid: stat.st_gid }
}

/// Path in `/proc` of an entry in an open directory: no system call reads a symbolic link's own attributes
/// relative to a directory descriptor.
fn through(directory: &OwnedFd, name: &OsStr) -> PathBuf {
    Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name)
}
