//! Implementation of [`HostDisk`] on a real file system: every write to the host.

use std::io::Write;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Uid, XattrFlags};
use rustix::io::Errno;

use crate::core::values::names::ManagedPath;
use crate::core::values::tree::FileAttributes;
use crate::host::fs::account_lock::AccountLock;
use crate::host::fs::disk::{FileStatus, HostDisk, SyncQueue};
use crate::host::fs::error::{FileOperation, HostError};
use crate::host::fs::path_state::{LABEL, errno_of, through_descriptor};
use crate::host::fs::root::Root;
use crate::host::fs::sync::{alongside, at_once};

impl HostDisk for Root {
    fn status(&self, path: &ManagedPath) -> Result<Option<FileStatus>, HostError> {
        self.status_of(path)
    }

    fn read(&self, path: &ManagedPath, limit: usize) -> Result<Option<Vec<u8>>, HostError> {
        Self::read(self, path, limit)
    }

    fn link_target(&self, path: &ManagedPath) -> Result<Option<String>, HostError> {
        Self::link_target(self, path)
    }

    fn label(&self, path: &ManagedPath) -> Result<Option<Vec<u8>>, HostError> {
        Self::label(self, path)
    }

    fn directory_label(&self, path: &ManagedPath) -> Result<Option<Vec<u8>>, HostError> {
        Self::directory_label(self, path)
    }

    fn below(&self, path: &ManagedPath) -> Result<Vec<ManagedPath>, HostError> {
        Self::below(self, path)
    }

    fn mount(&self, directory: Option<&ManagedPath>) -> Result<u64, HostError> {
        Self::mount(self, directory)
    }

    fn is_volatile(&self, directory: &ManagedPath) -> Result<bool, HostError> {
        Self::is_volatile(self, directory)
    }

    fn mount_points(&self) -> Result<Vec<ManagedPath>, HostError> {
        self.mounts_below()
    }

    fn lock_accounts(&self) -> Result<AccountLock, HostError> {
        AccountLock::take(self)
    }

    fn make_directory(
        &self,
        path: &ManagedPath,
        attributes: FileAttributes,
        label: Option<&[u8]>,
    ) -> Result<(), HostError> {
        let failed = |op| move |errno| HostError::new(op, path.as_str(), errno);
        let parent = self.parent(path, FileOperation::MakeDirectory)?;
        let name = path.file_name();
        // A directory of root gets its mode at once: a kill at this point must not leave a `/var/lib` with
        // mode 0700.
        let is_roots = (attributes.uid, attributes.gid) == (0, 0);
        let mode = if is_roots { Mode::from_raw_mode(attributes.mode & 0o777) } else { Mode::RWXU };
        rustix::fs::mkdirat(&parent, name, mode).map_err(failed(FileOperation::MakeDirectory))?;
        let labelled = label.map_or(Ok(()), |label| {
            let directory = through_descriptor(&parent, name);
            rustix::fs::lsetxattr(directory, LABEL, label, XattrFlags::empty())
                .or_else(without_labels)
                .map_err(failed(FileOperation::Label))
        });
        labelled?;
        disinherit(&parent, name).map_err(failed(FileOperation::SetAttributes))?;
        give(&parent, name, attributes).map_err(failed(FileOperation::SetAttributes))
    }

    fn set_attributes(&self, path: &ManagedPath, attributes: FileAttributes) -> Result<(), HostError> {
        let failed = |errno| HostError::new(FileOperation::SetAttributes, path.as_str(), errno);
        let parent = self.parent(path, FileOperation::SetAttributes)?;
        match give(&parent, path.file_name(), attributes) {
            Err(Errno::NOTDIR) => {
                let file = open_regular(&parent, path.file_name()).map_err(failed)?;
                give_file(&file, attributes).map_err(failed)
            }
            given => given.map_err(failed),
        }
    }

    fn create_file(
        &self,
        path: &ManagedPath,
        contents: &[u8],
        attributes: FileAttributes,
        label: Option<&[u8]>,
    ) -> Result<(), HostError> {
        let failed = |op| move |errno| HostError::new(op, path.as_str(), errno);
        let parent = self.parent(path, FileOperation::Stage)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        // No other user may read it before the owner is set.
        let file = rustix::fs::openat(&parent, path.file_name(), flags, Mode::RUSR | Mode::WUSR)
            .map_err(failed(FileOperation::Stage))?;
        if let Some(label) = label {
            rustix::fs::fsetxattr(&file, LABEL, label, XattrFlags::empty())
                .or_else(without_labels)
                .map_err(failed(FileOperation::Label))?;
        }
        let mut file = std::fs::File::from(file);
        file.write_all(contents).map_err(|error| failed(FileOperation::Stage)(errno_of(&error)))?;
        give_file(&file, attributes).map_err(failed(FileOperation::SetAttributes))
    }

    fn create_symlink(
        &self,
        path: &ManagedPath,
        target: &str,
        (uid, gid): (u32, u32),
        label: Option<&[u8]>,
    ) -> Result<(), HostError> {
        let failed = |op| move |errno| HostError::new(op, path.as_str(), errno);
        let parent = self.parent(path, FileOperation::Link)?;
        let name = path.file_name();
        rustix::fs::symlinkat(target, &parent, name).map_err(failed(FileOperation::Link))?;
        chown(&parent, name, uid, gid).map_err(failed(FileOperation::SetAttributes))?;
        if let Some(label) = label {
            let link = through_descriptor(&parent, name);
            rustix::fs::lsetxattr(link, LABEL, label, XattrFlags::empty())
                .or_else(without_labels)
                .map_err(failed(FileOperation::Label))?;
        }
        Ok(())
    }

    fn hard_link(&self, from: &ManagedPath, to: &ManagedPath) -> Result<(), HostError> {
        let (old, new) = (self.parent(from, FileOperation::Link)?, self.parent(to, FileOperation::Link)?);
        rustix::fs::linkat(&old, from.file_name(), &new, to.file_name(), AtFlags::empty())
            .map_err(|errno| HostError::new(FileOperation::Link, to.as_str(), errno))
    }

    fn append(&self, path: &ManagedPath, bytes: &[u8]) -> Result<(), HostError> {
        let failed = |errno| HostError::new(FileOperation::Append, path.as_str(), errno);
        let parent = self.parent(path, FileOperation::Append)?;
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&parent, path.file_name(), flags, Mode::empty()).map_err(failed)?;
        let mut file = std::fs::File::from(file);
        file.write_all(bytes).map_err(|error| failed(errno_of(&error)))
    }

    fn rename(&self, from: &ManagedPath, to: &ManagedPath) -> Result<(), HostError> {
        self.rename_with(from, to, RenameFlags::NOREPLACE)
    }

    fn exchange(&self, a: &ManagedPath, b: &ManagedPath) -> Result<(), HostError> {
        self.rename_with(a, b, RenameFlags::EXCHANGE)
    }

    fn remove_file(&self, path: &ManagedPath) -> Result<(), HostError> {
        self.unlink(path, AtFlags::empty())
    }

    fn remove_files(&self, paths: &[ManagedPath]) -> Result<(), HostError> {
        at_once(paths, |path| self.remove_file(path))
    }

    fn remove_directory(&self, path: &ManagedPath) -> Result<(), HostError> {
        self.unlink(path, AtFlags::REMOVEDIR)
    }

    fn sync(&self, paths: &[Option<ManagedPath>]) -> Result<(), HostError> {
        at_once(paths, |path| self.sync_one(path.as_ref()))
    }

    fn sync_alongside(&self, write: &mut dyn FnMut(&mut SyncQueue<'_>)) -> Result<(), HostError> {
        alongside(|queue| write(queue), |path| self.sync_one(path.as_ref()))
    }
}

impl Root {
    fn rename_with(&self, from: &ManagedPath, to: &ManagedPath, flags: RenameFlags) -> Result<(), HostError> {
        let (old, new) = (self.parent(from, FileOperation::Rename)?, self.parent(to, FileOperation::Rename)?);
        rustix::fs::renameat_with(&old, from.file_name(), &new, to.file_name(), flags)
            .map_err(|errno| HostError::new(FileOperation::Rename, to.as_str(), errno))
    }

    fn unlink(&self, path: &ManagedPath, flags: AtFlags) -> Result<(), HostError> {
        let parent = self.parent(path, FileOperation::Remove)?;
        rustix::fs::unlinkat(&parent, path.file_name(), flags)
            .map_err(|errno| HostError::new(FileOperation::Remove, path.as_str(), errno))
    }
}

/// Remove inherited access control lists: they would apply before the mode is set, and be inherited by
/// everything created in the directory.
fn disinherit(parent: &OwnedFd, name: &str) -> Result<(), Errno> {
    let directory = through_descriptor(parent, name);
    for list in ["system.posix_acl_default", "system.posix_acl_access"] {
        match rustix::fs::lremovexattr(&directory, list) {
            Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Set the owner first: changing it clears set-user-ID and set-group-ID bits, which the mode may contain.
fn give(parent: &OwnedFd, name: &str, attributes: FileAttributes) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(parent, name, flags, Mode::empty())?;
    rustix::fs::fchown(&directory, Some(Uid::from_raw(attributes.uid)), Some(Gid::from_raw(attributes.gid)))?;
    rustix::fs::fchmod(&directory, Mode::from_raw_mode(attributes.mode))
}

/// Open an existing regular file; any other type is an error.
fn open_regular(parent: &OwnedFd, name: &str) -> Result<std::fs::File, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(parent, name, flags, Mode::empty())?;
    match FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(file.into()),
        _ => Err(Errno::NOTDIR),
    }
}

fn give_file(file: &std::fs::File, attributes: FileAttributes) -> Result<(), Errno> {
    rustix::fs::fchown(file, Some(Uid::from_raw(attributes.uid)), Some(Gid::from_raw(attributes.gid)))?;
    rustix::fs::fchmod(file, Mode::from_raw_mode(attributes.mode))
}

/// Accept that a file system takes no labels: its files have the one that the kernel gives them.
fn without_labels(errno: Errno) -> Result<(), Errno> {
    if errno == Errno::OPNOTSUPP { Ok(()) } else { Err(errno) }
}

fn chown(parent: &OwnedFd, name: &str, uid: u32, gid: u32) -> Result<(), Errno> {
    let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
    rustix::fs::chownat(parent, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
}
