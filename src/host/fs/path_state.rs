//! Reading the state of paths: type, attributes, digest, link target, SELinux label.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;

use rustix::buffer::SpareCapacity;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, StatxFlags};
use rustix::io::Errno;
use sha2::Digest as _;

use crate::core::values::foreign_text::harmless_line;
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::{ContentDigest, FileAttributes, FileKind, PathState};
use crate::host::fs::disk::FileStatus;
use crate::host::fs::error::{FileOperation, HostError};
use crate::host::fs::root::{GraftPoint, Root};
use crate::host::fs::xattrs::XattrSource;

impl Root {
    /// Read the state of `path`. A symbolic link at the path is not followed.
    pub fn path_state(&self, path: &ManagedPath) -> Result<PathState, HostError> {
        let parent = match self.parent(path, FileOperation::Read) {
            Ok(parent) => parent,
            Err(HostError::Escape { .. } | HostError::UntrustedLink { .. }) => {
                return Ok(PathState::Unreachable);
            }
            Err(error) if error.errno() == Some(Errno::LOOP) => return Ok(PathState::Unreachable),
            Err(error) => return absent_or(error),
        };
        let failed = |errno| HostError::new(FileOperation::Read, path.as_str(), errno);
        let name = path.file_name();
        let stat = match rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(errno) => return absent_or(failed(errno)),
        };
        let attributes = attributes_of(&stat);
        // By path, because opening a directory would require read permission.
        let unopened = || XattrSource::Path(through_descriptor(&parent, name)).extended().map_err(failed);
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                let file = open_file(&parent, name).map_err(failed)?;
                let extended = XattrSource::File(&file).extended().map_err(failed)?;
                let digest = digest(file).map_err(failed)?;
                let (size, inode) = (u64::try_from(stat.st_size).unwrap_or(0), (stat.st_dev, stat.st_ino));
                PathState::File { attributes, digest, size, inode, extended }
            }
            FileType::Directory => PathState::Directory { attributes, extended: unopened()? },
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(&parent, name, Vec::new()).map_err(failed)?;
                let target = target.to_string_lossy().into_owned();
                PathState::Symlink { target, owner: (stat.st_uid, stat.st_gid), extended: unopened()? }
            }
            _ => PathState::Other,
        })
    }

    /// Return true if `path` is a directory, following links that stay beneath the root.
    #[must_use]
    pub fn leads_to_directory(&self, path: &ManagedPath) -> bool {
        self.directory(path).is_ok()
    }

    /// Return the target of the symbolic link at `path`; `None` if it is no symbolic link.
    pub fn link_target(&self, path: &ManagedPath) -> Result<Option<String>, HostError> {
        let target = self.parent(path, FileOperation::Read).and_then(|parent| {
            rustix::fs::readlinkat(&parent, path.file_name(), Vec::new())
                .map_err(|errno| HostError::new(FileOperation::Read, path.as_str(), errno))
        });
        match target {
            Ok(target) => Ok(Some(target.to_string_lossy().into_owned())),
            Err(HostError::Escape { .. } | HostError::UntrustedLink { .. }) => Ok(None),
            Err(error) if matches!(error.errno(), Some(Errno::INVAL | Errno::LOOP)) => Ok(None),
            Err(error) => absent_or(error).map(|_| None),
        }
    }

    /// Identify the directory entry `path` independently of links above it: device and inode of its
    /// directory, and its name. `None` if the directory does not exist.
    pub fn place(&self, path: &ManagedPath) -> Result<Option<(u64, u64, String)>, HostError> {
        let failed = |errno| HostError::new(FileOperation::Read, path.as_str(), errno);
        let Ok(parent) = self.parent(path, FileOperation::Read) else { return Ok(None) };
        let stat = rustix::fs::fstat(&parent).map_err(failed)?;
        Ok(Some((stat.st_dev, stat.st_ino, path.file_name().to_owned())))
    }

    /// Return the status of `path`, without its content.
    pub(crate) fn status_of(&self, path: &ManagedPath) -> Result<Option<FileStatus>, HostError> {
        let stat = self.parent(path, FileOperation::Read).and_then(|parent| {
            rustix::fs::statat(&parent, path.file_name(), AtFlags::SYMLINK_NOFOLLOW)
                .map_err(|errno| HostError::new(FileOperation::Read, path.as_str(), errno))
        });
        let stat = match stat {
            Ok(stat) => stat,
            Err(error) => return absent_or(error).map(|_| None),
        };
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => FileKind::File,
            FileType::Symlink => FileKind::Symlink,
            FileType::Directory => FileKind::Directory,
            _ => FileKind::Other,
        };
        Ok(Some(FileStatus { kind, attributes: attributes_of(&stat), inode: stat.st_ino }))
    }

    /// Return true if `path` exists, as anything.
    pub fn exists(&self, path: &ManagedPath) -> Result<bool, HostError> {
        Ok(self.status_of(path)?.is_some())
    }

    /// Read the regular file at `path`; `None` if it does not exist or is not a regular file. Fails if the
    /// file exceeds `limit` bytes.
    pub fn read(&self, path: &ManagedPath, limit: usize) -> Result<Option<Vec<u8>>, HostError> {
        let parent = match self.parent(path, FileOperation::Read) {
            Ok(parent) => parent,
            Err(error) => return absent_or(error).map(|_| None),
        };
        let file = match open_file(&parent, path.file_name()) {
            Ok(file) => file,
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO | Errno::ISDIR) => return Ok(None),
            Err(errno) => return Err(HostError::new(FileOperation::Read, path.as_str(), errno)),
        };
        match read_bounded(file, path, limit) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.errno() == Some(Errno::ISDIR) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// List the names in the directory at `path` that a config could contain, sorted; empty if it is no
    /// directory.
    pub fn list(&self, path: &ManagedPath) -> Result<Vec<String>, HostError> {
        let names = self.names(path)?.into_iter();
        Ok(names.filter_map(|name| mentionable(&name)).collect())
    }

    /// List the names in the directory at `path` that no config could contain, with replaced characters.
    pub(crate) fn unmentionable(&self, path: &ManagedPath) -> Result<Vec<String>, HostError> {
        let names = self.names(path)?.into_iter().filter(|name| mentionable(name).is_none());
        Ok(names.map(|name| harmless_line(&name.to_string_lossy()).into_owned()).collect())
    }

    fn names(&self, path: &ManagedPath) -> Result<Vec<OsString>, HostError> {
        let failed = |errno| HostError::new(FileOperation::List, path.as_str(), errno);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = self
            .directory(path)
            .and_then(|directory| rustix::fs::openat(&directory, ".", flags, Mode::empty()));
        let directory = match opened {
            Ok(directory) => directory,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Vec::new()),
            Err(errno) => return Err(failed(errno)),
        };
        let mut names = Vec::new();
        let mut buffer = Vec::with_capacity(32 << 10);
        let mut entries = RawDir::new(&directory, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(failed)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Return true if a user other than root can change what is at `path`: the file itself or a directory above it belongs
    /// to another user, or others can write it. Also where that cannot be found out for lack of a trusted way there.
    #[must_use]
    pub fn is_changed_by_users(&self, path: &ManagedPath) -> bool {
        let is_others = |uid: u32, mode: u32| uid != 0 || mode & 0o022 != 0;
        let above = path.ancestors().any(|directory| match self.directory(&directory) {
            Ok(directory) => {
                rustix::fs::fstat(directory).is_ok_and(|stat| is_others(stat.st_uid, stat.st_mode))
            }
            Err(errno) => errno == Errno::NOLINK,
        });
        above
            || self.status_of(path).ok().flatten().is_some_and(|found| {
                let mode = if found.kind == FileKind::Symlink { 0 } else { found.attributes.mode };
                is_others(found.attributes.uid, mode)
            })
    }

    /// List everything below the directory at `path`, parents before children. A name that cannot be written
    /// in a path is an error: skipping it could lose data.
    pub fn below(&self, path: &ManagedPath) -> Result<Vec<ManagedPath>, HostError> {
        let mut found = Vec::new();
        for name in self.names(path)? {
            let Some(name) = mentionable(&name) else {
                return Err(HostError::InvalidName { directory: path.to_string() });
            };
            let child = path.join(&name);
            let is_directory = self.status_of(&child)?.is_some_and(|found| found.kind == FileKind::Directory);
            found.push(child.clone());
            if is_directory {
                found.extend(self.below(&child)?);
            }
        }
        Ok(found)
    }

    /// Return an ID of the mount that holds `directory`, or the root without one. A file can be renamed
    /// between two directories exactly if their IDs are equal.
    pub fn mount(&self, directory: Option<&ManagedPath>) -> Result<u64, HostError> {
        let shown = directory.map_or("/", ManagedPath::as_str);
        let failed = |errno| HostError::new(FileOperation::Read, shown, errno);
        let found = self.find(directory.map_or(".", ManagedPath::relative)).map_err(failed)?;
        let stat = rustix::fs::statx(&found.directory, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID);
        // A grafted directory counts as a mount of its own, even if it is on the same disk.
        let elsewhere = match found.graft {
            None => 0,
            Some(GraftPoint::Etc) => ETC,
            Some(GraftPoint::Var) => VAR,
        };
        Ok(stat.map_err(failed)?.stx_mnt_id | elsewhere)
    }

    /// Return the SELinux label of `path`; `None` without a label.
    pub fn label(&self, path: &ManagedPath) -> Result<Option<Vec<u8>>, HostError> {
        let Ok(parent) = self.parent(path, FileOperation::Read) else {
            return Ok(None);
        };
        label_of(path, |label| {
            rustix::fs::lgetxattr(through_descriptor(&parent, path.file_name()), LABEL, label)
        })
    }

    /// Return the SELinux label of the directory at `path`, following links; `None` without a directory or
    /// label.
    pub fn directory_label(&self, path: &ManagedPath) -> Result<Option<Vec<u8>>, HostError> {
        let Ok(directory) = self.directory(path) else {
            return Ok(None);
        };
        label_of(path, |label| rustix::fs::getxattr(through_descriptor(&directory, ""), LABEL, label))
    }

    /// Return true if files in `directory` have labels that can be set. `refusing` are the mounts of
    /// [`mounts_without_labels`](crate::host::fs::mounts::mounts_without_labels).
    pub(crate) fn has_labels(
        &self,
        directory: &ManagedPath,
        refusing: &BTreeSet<u64>,
    ) -> Result<bool, HostError> {
        if self.directory_label(directory)?.is_none() {
            return Ok(false);
        }
        Ok(!refusing.contains(&(self.mount(Some(directory))? & !(VAR | ETC))))
    }
}

/// Read a label with `read`.
fn label_of(
    path: &ManagedPath,
    read: impl FnOnce(SpareCapacity<'_, u8>) -> Result<usize, Errno>,
) -> Result<Option<Vec<u8>>, HostError> {
    let mut label = Vec::with_capacity(256);
    match read(rustix::buffer::spare_capacity(&mut label)) {
        Ok(_) => Ok(Some(label)),
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOENT) => Ok(None),
        Err(errno) => Err(HostError::new(FileOperation::Read, path.as_str(), errno)),
    }
}

/// High bits, which mark grafts: the kernel numbers mounts from the low end.
const VAR: u64 = 1 << 63;
const ETC: u64 = 1 << 62;

fn attributes_of(stat: &rustix::fs::Stat) -> FileAttributes {
    FileAttributes { mode: stat.st_mode & 0o7777, uid: stat.st_uid, gid: stat.st_gid }
}

/// Extended attribute that holds the SELinux label.
pub(crate) const LABEL: &str = "security.selinux";

/// Path in `/proc` of an entry in an open directory: no system call reads a symbolic link's own attributes
/// relative to a directory descriptor.
pub(crate) fn through_descriptor(parent: &OwnedFd, name: &str) -> String {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}/{name}", parent.as_raw_fd())
}

/// Return the name if it is valid UTF-8 without control characters.
fn mentionable(name: &OsStr) -> Option<String> {
    let name = name.to_str()?;
    (!name.chars().any(char::is_control)).then(|| name.to_owned())
}

fn absent_or(error: HostError) -> Result<PathState, HostError> {
    match error.errno() {
        Some(Errno::NOENT | Errno::NOTDIR) => Ok(PathState::Absent),
        _ => Err(error),
    }
}

/// Open a file without following a link at its name, and without waiting for the writer of a named pipe.
fn open_file(parent: impl AsFd, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}

/// Read all of `file`, which was opened at `path`. Fails if it exceeds `limit` bytes.
pub(crate) fn read_bounded(file: OwnedFd, path: &ManagedPath, limit: usize) -> Result<Vec<u8>, HostError> {
    let mut bytes = Vec::new();
    let bound = limit as u64 + 1;
    match std::fs::File::from(file).take(bound).read_to_end(&mut bytes) {
        Ok(_) if bytes.len() > limit => Err(HostError::TooLarge { path: path.to_string(), limit }),
        Ok(_) => Ok(bytes),
        Err(error) => Err(HostError::new(FileOperation::Read, path.as_str(), errno_of(&error))),
    }
}

fn digest(file: OwnedFd) -> Result<ContentDigest, Errno> {
    let mut hasher = sha2::Sha256::new();
    std::io::copy(&mut std::fs::File::from(file), &mut hasher).map_err(|error| errno_of(&error))?;
    Ok(ContentDigest::from_sha256(hasher.finalize().into()))
}

pub(crate) fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
