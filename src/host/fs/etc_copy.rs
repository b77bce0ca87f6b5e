//! Copy of a deployment's `/etc` with owners, modes and extended attributes. libostree merges from the copy
//! at finalization, so the running `/etc` is not changed.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Stat, Uid, XattrFlags};
use rustix::io::Errno;

use crate::core::config::decode::STAGING_NAME;
use crate::host::fs::error::{FileOperation, HostError};
use crate::host::fs::path_state::errno_of;

/// Maximum size of an inode's attribute names, and of one attribute value, on Linux.
const ATTRIBUTES_BYTES: usize = 64 << 10;

/// Copy the directory `from` into the directory `to`, including the attributes of `from` itself. Sockets,
/// pipes and devices are skipped, as libostree does, and so are the staging directories of interrupted
/// changes.
pub fn copy(from: &Path, to: &Path) -> Result<(), HostError> {
    let source = open(CWD, from.as_os_str()).map_err(|errno| failed(FileOperation::Read, from, errno))?;
    let target = open(CWD, to.as_os_str()).map_err(|errno| failed(FileOperation::Stage, to, errno))?;
    Copy { shown: from.to_owned() }.directory(&source, &target)
}

fn failed(op: FileOperation, path: &Path, errno: Errno) -> HostError {
    HostError::new(op, &path.display().to_string(), errno)
}

fn open(at: impl std::os::fd::AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty())
}

/// Directory being copied, by its path for messages.
struct Copy {
    shown: PathBuf,
}

impl Copy {
    fn directory(&self, source: &OwnedFd, target: &OwnedFd) -> Result<(), HostError> {
        let read = |errno| failed(FileOperation::List, &self.shown, errno);
        for entry in Dir::read_from(source).map_err(read)? {
            let entry = entry.map_err(read)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." && name != STAGING_NAME {
                self.entry(source, target, name)?;
            }
        }
        // Last: the mode may forbid adding files even to the owner.
        let stat = rustix::fs::fstat(source).map_err(read)?;
        let given = copy_attributes(&descriptor(source), &descriptor(target))
            .and_then(|()| rustix::fs::fchown(target, Some(owner(&stat).0), Some(owner(&stat).1)))
            .and_then(|()| rustix::fs::fchmod(target, mode(&stat)));
        given.map_err(|errno| failed(FileOperation::SetAttributes, &self.shown, errno))
    }

    fn entry(&self, source: &OwnedFd, target: &OwnedFd, name: &OsStr) -> Result<(), HostError> {
        let shown = self.shown.join(name);
        let stat = match rustix::fs::statat(source, name, AtFlags::SYMLINK_NOFOLLOW) {
            // Removed after the directory was listed.
            Err(Errno::NOENT) => return Ok(()),
            stat => stat.map_err(|errno| failed(FileOperation::Read, &shown, errno))?,
        };
        let stage = |errno| failed(FileOperation::Stage, &shown, errno);
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                rustix::fs::mkdirat(target, name, Mode::RWXU).map_err(stage)?;
                let (source, target) =
                    (open(source, name).map_err(stage)?, open(target, name).map_err(stage)?);
                Self { shown }.directory(&source, &target)
            }
            FileType::Symlink => symlink(source, target, name, &stat).map_err(stage),
            FileType::RegularFile => file(source, target, name, &stat).map_err(stage),
            _ => {
                log::info!(
                    "{} is not merged: it is neither a file nor a directory nor a symbolic link",
                    shown.display()
                );
                Ok(())
            }
        }
    }
}

fn symlink(source: &OwnedFd, target: &OwnedFd, name: &OsStr, stat: &Stat) -> Result<(), Errno> {
    let points_to = rustix::fs::readlinkat(source, name, Vec::new())?;
    rustix::fs::symlinkat(points_to.as_c_str(), target, name)?;
    let (uid, gid) = owner(stat);
    rustix::fs::chownat(target, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
    let path = |directory: &OwnedFd| descriptor(directory).join(name);
    copy_attributes(&path(source), &path(target))
}

fn file(source: &OwnedFd, target: &OwnedFd, name: &OsStr, stat: &Stat) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut from = File::from(rustix::fs::openat(source, name, flags, Mode::empty())?);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mut to = File::from(rustix::fs::openat(target, name, flags, Mode::RUSR | Mode::WUSR)?);
    std::io::copy(&mut from, &mut to).map_err(|error| errno_of(&error))?;
    let (uid, gid) = owner(stat);
    rustix::fs::fchown(&to, Some(uid), Some(gid))?;
    copy_attributes(&descriptor(&from), &descriptor(&to))?;
    rustix::fs::fchmod(&to, mode(stat))
}

fn owner(stat: &Stat) -> (Uid, Gid) {
    (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid))
}

fn mode(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode & 0o7777)
}

/// Path in `/proc` of an open file. Joined with a name, it addresses an entry of an open directory.
fn descriptor(file: &impl std::os::fd::AsRawFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Copy all extended attributes. One that the file system of the copy does not support is dropped with a
/// warning.
fn copy_attributes(from: &Path, to: &Path) -> Result<(), Errno> {
    // The path of an open file in `/proc` is a link, which must be followed; an entry below it must not be.
    let is_open = from.parent() == Some(Path::new("/proc/self/fd"));
    let mut names = vec![0_u8; ATTRIBUTES_BYTES];
    let length = if is_open {
        rustix::fs::listxattr(from, &mut names)
    } else {
        rustix::fs::llistxattr(from, &mut names)
    };
    let length = match length {
        Err(Errno::OPNOTSUPP) => return Ok(()),
        length => length?,
    };
    names.truncate(length);
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let name = OsStr::from_bytes(name);
        let mut value = vec![0_u8; ATTRIBUTES_BYTES];
        let length = if is_open {
            rustix::fs::getxattr(from, name, &mut value)
        } else {
            rustix::fs::lgetxattr(from, name, &mut value)
        }?;
        value.truncate(length);
        let set = if is_open {
            rustix::fs::setxattr(to, name, &value, XattrFlags::empty())
        } else {
            rustix::fs::lsetxattr(to, name, &value, XattrFlags::empty())
        };
        match set {
            Err(Errno::OPNOTSUPP) => {
                log::warn!(
                    "extended attribute {} of a file in /etc is lost: the file system of the copy does not support it",
                    name.to_string_lossy()
                );
            }
            set => set?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt};

    use super::*;

    #[test]
    fn everything_but_staging_and_special_files_is_copied() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = |name: &str| from.path().join(name);
        std::fs::create_dir_all(path("a/b")).unwrap();
        std::fs::create_dir(path(STAGING_NAME)).unwrap();
        std::fs::write(path("a/b/file"), "content").unwrap();
        std::fs::set_permissions(path("a/b/file"), PermissionsExt::from_mode(0o4640)).unwrap();
        std::fs::set_permissions(path("a/b"), PermissionsExt::from_mode(0o2500)).unwrap();
        std::os::unix::fs::symlink("b/nowhere", path("a/link")).unwrap();
        rustix::fs::mknodat(CWD, path("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        copy(from.path(), to.path()).unwrap();
        let copied = |name: &str| to.path().join(name);
        assert_eq!(std::fs::read_to_string(copied("a/b/file")).unwrap(), "content");
        assert_eq!(std::fs::metadata(copied("a/b/file")).unwrap().mode() & 0o7777, 0o4640);
        assert_eq!(std::fs::metadata(copied("a/b")).unwrap().mode() & 0o7777, 0o2500);
        assert_eq!(std::fs::read_link(copied("a/link")).unwrap(), Path::new("b/nowhere"));
        assert!(!copied("pipe").exists() && !copied(STAGING_NAME).exists());
    }

    #[test]
    fn error_names_the_missing_directory() {
        let to = tempfile::tempdir().unwrap();
        let error = copy(Path::new("/nonexistent"), to.path()).unwrap_err();
        assert!(error.to_string().contains("/nonexistent"), "{error}");
    }
}
