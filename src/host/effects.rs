//! The only acts that change the host. Everything above asks for these, one at a time, so that a
//! test can count them, stop between any two, or make any of them fail.

use std::io::Write;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, RenameFlags, Uid, XattrFlags};
use rustix::io::Errno;

use super::error::{HostError, Op};
use super::observe::{LABEL, errno_of, through_descriptor};
use super::root::Root;
use crate::core::names::ManagedPath;
use crate::core::tree::Attributes;

/// The port of effects. Each is one change of the file system; none follows a link at its path.
pub trait Effects {
    /// Makes a directory with these attributes and this label.
    fn make_directory(
        &self,
        path: &ManagedPath,
        attributes: Attributes,
        label: Option<&[u8]>,
    ) -> Result<(), HostError>;
    /// Gives a directory these attributes.
    fn set_attributes(&self, path: &ManagedPath, attributes: Attributes) -> Result<(), HostError>;
    /// Makes a new file with all that it will ever be: content, mode, owner and label; its content
    /// is durable on return.
    fn create_file(
        &self,
        path: &ManagedPath,
        contents: &[u8],
        attributes: Attributes,
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
    /// Moves `from` to `to`, where nothing stands.
    fn rename(&self, from: &ManagedPath, to: &ManagedPath) -> Result<(), HostError>;
    /// Swaps what stands at two paths, atomically.
    fn exchange(&self, a: &ManagedPath, b: &ManagedPath) -> Result<(), HostError>;
    /// Removes a file or link.
    fn remove_file(&self, path: &ManagedPath) -> Result<(), HostError>;
    /// Removes an empty directory.
    fn remove_directory(&self, path: &ManagedPath) -> Result<(), HostError>;
    /// Makes the names in a directory durable.
    fn sync_directory(&self, path: &ManagedPath) -> Result<(), HostError>;
}

impl Effects for Root {
    fn make_directory(
        &self,
        path: &ManagedPath,
        attributes: Attributes,
        label: Option<&[u8]>,
    ) -> Result<(), HostError> {
        let failed = |op| move |errno| HostError::new(op, path.as_str(), errno);
        let parent = self.parent(path, Op::MakeDirectory)?;
        let name = path.file_name();
        rustix::fs::mkdirat(&parent, name, Mode::RWXU).map_err(failed(Op::MakeDirectory))?;
        let labelled = label.map_or(Ok(()), |label| {
            let directory = through_descriptor(&parent, name);
            rustix::fs::lsetxattr(directory, LABEL, label, XattrFlags::empty()).map_err(failed(Op::Label))
        });
        let done = labelled.and_then(|()| give(&parent, name, attributes).map_err(failed(Op::SetAttributes)));
        if done.is_err() {
            // The caller knows nothing of a directory that it was not given.
            rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR).map_err(failed(Op::Remove))?;
        }
        done
    }

    fn set_attributes(&self, path: &ManagedPath, attributes: Attributes) -> Result<(), HostError> {
        let parent = self.parent(path, Op::SetAttributes)?;
        give(&parent, path.file_name(), attributes)
            .map_err(|errno| HostError::new(Op::SetAttributes, path.as_str(), errno))
    }

    fn create_file(
        &self,
        path: &ManagedPath,
        contents: &[u8],
        attributes: Attributes,
        label: Option<&[u8]>,
    ) -> Result<(), HostError> {
        let failed = |op| move |errno| HostError::new(op, path.as_str(), errno);
        let parent = self.parent(path, Op::Stage)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        // Nobody else may read it before it has its owner.
        let file = rustix::fs::openat(&parent, path.file_name(), flags, Mode::RUSR | Mode::WUSR)
            .map_err(failed(Op::Stage))?;
        if let Some(label) = label {
            rustix::fs::fsetxattr(&file, LABEL, label, XattrFlags::empty()).map_err(failed(Op::Label))?;
        }
        let mut file = std::fs::File::from(file);
        file.write_all(contents).map_err(|error| failed(Op::Stage)(errno_of(&error)))?;
        give_file(&file, attributes).map_err(failed(Op::SetAttributes))?;
        rustix::fs::fsync(&file).map_err(failed(Op::Sync))
    }

    fn create_symlink(
        &self,
        path: &ManagedPath,
        target: &str,
        (uid, gid): (u32, u32),
        label: Option<&[u8]>,
    ) -> Result<(), HostError> {
        let failed = |op| move |errno| HostError::new(op, path.as_str(), errno);
        let parent = self.parent(path, Op::Link)?;
        let name = path.file_name();
        rustix::fs::symlinkat(target, &parent, name).map_err(failed(Op::Link))?;
        chown(&parent, name, uid, gid).map_err(failed(Op::SetAttributes))?;
        if let Some(label) = label {
            let link = through_descriptor(&parent, name);
            rustix::fs::lsetxattr(link, LABEL, label, XattrFlags::empty()).map_err(failed(Op::Label))?;
        }
        Ok(())
    }

    fn hard_link(&self, from: &ManagedPath, to: &ManagedPath) -> Result<(), HostError> {
        let (old, new) = (self.parent(from, Op::Link)?, self.parent(to, Op::Link)?);
        rustix::fs::linkat(&old, from.file_name(), &new, to.file_name(), AtFlags::empty())
            .map_err(|errno| HostError::new(Op::Link, to.as_str(), errno))
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

    fn remove_directory(&self, path: &ManagedPath) -> Result<(), HostError> {
        self.unlink(path, AtFlags::REMOVEDIR)
    }

    fn sync_directory(&self, path: &ManagedPath) -> Result<(), HostError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        self.directory(path)
            .and_then(|directory| rustix::fs::openat(&directory, ".", flags, Mode::empty()))
            .and_then(rustix::fs::fsync)
            .map_err(|errno| HostError::new(Op::Sync, path.as_str(), errno))
    }
}

impl Root {
    fn rename_with(&self, from: &ManagedPath, to: &ManagedPath, flags: RenameFlags) -> Result<(), HostError> {
        let (old, new) = (self.parent(from, Op::Rename)?, self.parent(to, Op::Rename)?);
        rustix::fs::renameat_with(&old, from.file_name(), &new, to.file_name(), flags)
            .map_err(|errno| HostError::new(Op::Rename, to.as_str(), errno))
    }

    fn unlink(&self, path: &ManagedPath, flags: AtFlags) -> Result<(), HostError> {
        let parent = self.parent(path, Op::Remove)?;
        rustix::fs::unlinkat(&parent, path.file_name(), flags)
            .map_err(|errno| HostError::new(Op::Remove, path.as_str(), errno))
    }
}

/// Owner first: changing it takes set-id bits away, which a mode may give.
fn give(parent: &OwnedFd, name: &str, attributes: Attributes) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(parent, name, flags, Mode::empty())?;
    rustix::fs::fchown(&directory, Some(Uid::from_raw(attributes.uid)), Some(Gid::from_raw(attributes.gid)))?;
    rustix::fs::fchmod(&directory, Mode::from_raw_mode(attributes.mode))
}

fn give_file(file: &std::fs::File, attributes: Attributes) -> Result<(), Errno> {
    rustix::fs::fchown(file, Some(Uid::from_raw(attributes.uid)), Some(Gid::from_raw(attributes.gid)))?;
    rustix::fs::fchmod(file, Mode::from_raw_mode(attributes.mode))
}

fn chown(parent: &OwnedFd, name: &str, uid: u32, gid: u32) -> Result<(), Errno> {
    let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
    rustix::fs::chownat(parent, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
}
