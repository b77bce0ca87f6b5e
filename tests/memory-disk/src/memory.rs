//! Disk in memory: the product's port on an [`Image`]. `tests/crash` compares it with a real file system.

use std::cell::RefCell;
use std::sync::Arc;

use flameholder::core::values::names::ManagedPath;
use flameholder::core::values::tree::{FileAttributes, FileKind};
use flameholder::host::fs::account_lock::AccountLock;
use flameholder::host::{FileOperation, FileStatus, HostDisk, HostError};
use rustix::io::Errno;

use crate::image::{Body, Edit, Image, Inode, Number, Place, Rights};
use crate::lookup::{self, Found};
use crate::watch::Watch;

/// One end of a rename: the name, and the inode there.
type End<T> = (Place, T);

/// Disk in memory, with its observer.
pub struct MemoryDisk<'a> {
    image: RefCell<Image>,
    watch: &'a dyn Watch,
}

impl<'a> MemoryDisk<'a> {
    pub fn new(image: Image, watch: &'a dyn Watch) -> Self {
        Self { image: RefCell::new(image), watch }
    }

    /// Current image of the disk.
    pub fn image(&self) -> Image {
        self.image.borrow().clone()
    }

    fn edit(&self, edit: &Edit) {
        self.watch.edit(&self.image.borrow(), edit);
        self.image.borrow_mut().apply(edit);
    }

    fn parent(&self, path: &ManagedPath, op: FileOperation) -> Result<Found, HostError> {
        lookup::directory(&self.image.borrow(), path.parent().as_ref())
            .map_err(|errno| HostError::new(op, path.as_str(), errno))
    }

    /// Directory and name of `path`, and the inode there.
    fn place(&self, path: &ManagedPath, op: FileOperation) -> Result<(Place, Option<Number>), HostError> {
        let parent = self.parent(path, op)?.number;
        let stands = self.image.borrow().entry(parent, path.file_name());
        Ok(((parent, path.file_name().into()), stands))
    }

    /// Inode at `path`; `None` if the path does not exist.
    fn look(&self, path: &ManagedPath) -> Result<Option<(Number, Inode)>, HostError> {
        match self.place(path, FileOperation::Read) {
            Ok((_, number)) => Ok(number.map(|number| (number, self.image.borrow().inode(number).clone()))),
            Err(error) if matches!(error.errno(), Some(Errno::NOENT | Errno::NOTDIR)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Create an inode without content, private until all its attributes are set.
    fn create(
        &self,
        path: &ManagedPath,
        op: FileOperation,
        body: Body,
        mode: u32,
    ) -> Result<Number, HostError> {
        let (place, stands) = self.place(path, op)?;
        if stands.is_some() {
            return Err(HostError::new(op, path.as_str(), Errno::EXIST));
        }
        let (number, volume) = {
            let image = self.image.borrow();
            (image.unused(), image.inode(place.0).volume)
        };
        let attributes = Rights { mode, uid: 0, gid: 0 };
        let fresh = Some(Inode { body, attributes, label: None, volume, names: 1 });
        self.edit(&Edit::Link { place, number, fresh });
        Ok(number)
    }

    fn give(&self, number: Number, attributes: FileAttributes) {
        let FileAttributes { mode, uid, gid } = attributes;
        self.own(number, (uid, gid));
        let is = self.image.borrow().inode(number).attributes;
        if is.mode != mode {
            self.edit(&Edit::Mode { number, mode });
        }
    }

    fn own(&self, number: Number, owner: (u32, u32)) {
        let is = self.image.borrow().inode(number).attributes;
        if (is.uid, is.gid) != owner {
            self.edit(&Edit::Own { number, owner });
        }
    }

    fn label_with(&self, number: Number, label: Option<&[u8]>) {
        if let Some(label) = label {
            self.edit(&Edit::Label { number, label: label.into() });
        }
    }

    fn is_mount_point(&self, place: &Place, number: Number) -> bool {
        let image = self.image.borrow();
        image.inode(place.0).volume != image.inode(number).volume
    }

    /// Both ends of a rename and their inodes.
    fn rename_ends(
        &self,
        from: &ManagedPath,
        to: &ManagedPath,
    ) -> Result<(End<Number>, End<Option<Number>>), HostError> {
        let failed = |errno| HostError::new(FileOperation::Rename, to.as_str(), errno);
        let (old, new) = (self.parent(from, FileOperation::Rename)?, self.parent(to, FileOperation::Rename)?);
        let image = self.image.borrow();
        if image.inode(old.number).volume != image.inode(new.number).volume {
            return Err(failed(Errno::XDEV));
        }
        let source = image.entry(old.number, from.file_name()).ok_or(failed(Errno::NOENT))?;
        let target = image.entry(new.number, to.file_name());
        // A directory cannot be moved below itself, nor exchanged with a directory above it.
        let nested = new.chain.contains(&source) || target.is_some_and(|target| old.chain.contains(&target));
        let places = ((old.number, from.file_name().into()), (new.number, to.file_name().into()));
        if nested {
            return Err(failed(if target.is_some() { Errno::EXIST } else { Errno::INVAL }));
        }
        Ok(((places.0, source), (places.1, target)))
    }

    fn flush(&self, path: Option<&ManagedPath>) -> Result<(), Errno> {
        let number = match path {
            None => lookup::directory(&self.image.borrow(), None)?.number,
            Some(path) => {
                let parent = lookup::directory(&self.image.borrow(), path.parent().as_ref())?.number;
                let stands = self.image.borrow().entry(parent, path.file_name()).ok_or(Errno::NOENT)?;
                let is_link = matches!(self.image.borrow().inode(stands).body, Body::Symlink(_));
                // A link has no content of its own to flush; its directory has the name.
                if is_link { lookup::directory(&self.image.borrow(), Some(path))?.number } else { stands }
            }
        };
        self.watch.flush(&self.image.borrow(), number);
        Ok(())
    }
}

impl HostDisk for MemoryDisk<'_> {
    fn status(&self, path: &ManagedPath) -> Result<Option<FileStatus>, HostError> {
        Ok(self.look(path)?.map(|(number, inode)| {
            let kind = match inode.body {
                Body::File(_) => FileKind::File,
                Body::Symlink(_) => FileKind::Symlink,
                Body::Directory(_) => FileKind::Directory,
            };
            FileStatus { kind, attributes: inode.attributes.into(), inode: number as u64 }
        }))
    }

    fn read(&self, path: &ManagedPath, limit: usize) -> Result<Option<Vec<u8>>, HostError> {
        match self.look(path)?.map(|(_, inode)| inode.body) {
            Some(Body::File(bytes)) if bytes.len() > limit => {
                Err(HostError::TooLarge { path: path.to_string(), limit })
            }
            Some(Body::File(bytes)) => Ok(Some(bytes.to_vec())),
            _ => Ok(None),
        }
    }

    fn link_target(&self, path: &ManagedPath) -> Result<Option<String>, HostError> {
        match self.look(path) {
            Ok(Some((_, Inode { body: Body::Symlink(target), .. }))) => Ok(Some(target.to_string())),
            Ok(_) | Err(HostError::Escape { .. } | HostError::UntrustedLink { .. }) => Ok(None),
            Err(error) if error.errno() == Some(Errno::LOOP) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn label(&self, path: &ManagedPath) -> Result<Option<Vec<u8>>, HostError> {
        let found = self.look(path).unwrap_or_default();
        Ok(found.and_then(|(_, inode)| inode.label).map(|label| label.to_vec()))
    }

    fn directory_label(&self, path: &ManagedPath) -> Result<Option<Vec<u8>>, HostError> {
        let image = self.image.borrow();
        let found = lookup::directory(&image, Some(path)).ok();
        Ok(found.and_then(|found| image.inode(found.number).label.as_ref().map(|label| label.to_vec())))
    }

    fn below(&self, path: &ManagedPath) -> Result<Vec<ManagedPath>, HostError> {
        let image = self.image.borrow();
        let top = match lookup::directory(&image, Some(path)) {
            Ok(found) => found.number,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Vec::new()),
            Err(errno) => return Err(HostError::new(FileOperation::List, path.as_str(), errno)),
        };
        let mut found = Vec::new();
        let mut pending = vec![(path.clone(), top)];
        while let Some((path, number)) = pending.pop() {
            if number != top {
                found.push(path.clone());
            }
            let names = image.names(number).into_iter().flatten().rev();
            pending.extend(names.map(|(name, number)| (path.join(name), *number)));
        }
        Ok(found)
    }

    fn mount(&self, directory: Option<&ManagedPath>) -> Result<u64, HostError> {
        let shown = directory.map_or("/", ManagedPath::as_str);
        let image = self.image.borrow();
        let found = lookup::directory(&image, directory);
        let found = found.map_err(|errno| HostError::new(FileOperation::Read, shown, errno))?;
        Ok(image.inode(found.number).volume as u64)
    }

    fn is_volatile(&self, _: &ManagedPath) -> Result<bool, HostError> {
        Ok(false)
    }

    fn mount_points(&self) -> Result<Vec<ManagedPath>, HostError> {
        Ok(self.image.borrow().mounts.to_vec())
    }

    fn lock_accounts(&self) -> Result<AccountLock, HostError> {
        Ok(AccountLock::unshared())
    }

    fn make_directory(
        &self,
        path: &ManagedPath,
        attributes: FileAttributes,
        label: Option<&[u8]>,
    ) -> Result<(), HostError> {
        let number = self.create(path, FileOperation::MakeDirectory, Body::Directory([].into()), 0o700)?;
        self.label_with(number, label);
        self.give(number, attributes);
        Ok(())
    }

    fn set_attributes(&self, path: &ManagedPath, attributes: FileAttributes) -> Result<(), HostError> {
        let failed = |errno| HostError::new(FileOperation::SetAttributes, path.as_str(), errno);
        let number = self.place(path, FileOperation::SetAttributes)?.1.ok_or(failed(Errno::NOENT))?;
        if matches!(self.image.borrow().inode(number).body, Body::Symlink(_)) {
            return Err(failed(Errno::LOOP));
        }
        self.give(number, attributes);
        Ok(())
    }

    fn create_file(
        &self,
        path: &ManagedPath,
        contents: &[u8],
        attributes: FileAttributes,
        label: Option<&[u8]>,
    ) -> Result<(), HostError> {
        let number = self.create(path, FileOperation::Stage, Body::File([].into()), 0o600)?;
        self.label_with(number, label);
        if !contents.is_empty() {
            self.edit(&Edit::Extend { number, bytes: contents.into() });
        }
        self.give(number, attributes);
        Ok(())
    }

    fn create_symlink(
        &self,
        path: &ManagedPath,
        target: &str,
        owner: (u32, u32),
        label: Option<&[u8]>,
    ) -> Result<(), HostError> {
        let number = self.create(path, FileOperation::Link, Body::Symlink(target.into()), 0o777)?;
        self.own(number, owner);
        self.label_with(number, label);
        Ok(())
    }

    fn hard_link(&self, from: &ManagedPath, to: &ManagedPath) -> Result<(), HostError> {
        let failed = |errno| HostError::new(FileOperation::Link, to.as_str(), errno);
        let (old, new) = (self.parent(from, FileOperation::Link)?, self.parent(to, FileOperation::Link)?);
        let edit = {
            let image = self.image.borrow();
            let number = image.entry(old.number, from.file_name()).ok_or(failed(Errno::NOENT))?;
            let place: Place = (new.number, Arc::from(to.file_name()));
            if image.entry(place.0, &place.1).is_some() {
                return Err(failed(Errno::EXIST));
            }
            // At a mount point, `link` would apply to the mounted directory.
            if image.inode(number).volume != image.inode(new.number).volume {
                return Err(failed(Errno::XDEV));
            }
            if image.names(number).is_some() {
                return Err(failed(Errno::PERM));
            }
            Edit::Link { place, number, fresh: None }
        };
        self.edit(&edit);
        Ok(())
    }

    fn append(&self, path: &ManagedPath, bytes: &[u8]) -> Result<(), HostError> {
        let failed = |errno| HostError::new(FileOperation::Append, path.as_str(), errno);
        let number = self.place(path, FileOperation::Append)?.1.ok_or(failed(Errno::NOENT))?;
        match self.image.borrow().inode(number).body {
            Body::File(_) => {}
            Body::Symlink(_) => return Err(failed(Errno::LOOP)),
            Body::Directory(_) => return Err(failed(Errno::ISDIR)),
        }
        self.edit(&Edit::Extend { number, bytes: bytes.into() });
        Ok(())
    }

    fn rename(&self, from: &ManagedPath, to: &ManagedPath) -> Result<(), HostError> {
        let failed = |errno| HostError::new(FileOperation::Rename, to.as_str(), errno);
        let ((from, number), (to, target)) = self.rename_ends(from, to)?;
        if target.is_some() {
            return Err(failed(Errno::EXIST));
        }
        if self.is_mount_point(&from, number) {
            return Err(failed(Errno::BUSY));
        }
        self.edit(&Edit::Move { from, to, number });
        Ok(())
    }

    fn exchange(&self, a: &ManagedPath, b: &ManagedPath) -> Result<(), HostError> {
        let failed = |errno| HostError::new(FileOperation::Rename, b.as_str(), errno);
        let ends = self.rename_ends(a, b);
        let ((one, first), (other, second)) = match ends {
            // A missing exchange partner is reported before the rules below.
            Err(error) if error.errno() == Some(Errno::EXIST) => return Err(failed(Errno::INVAL)),
            Err(error) if error.errno() == Some(Errno::INVAL) => return Err(failed(Errno::NOENT)),
            ends => ends?,
        };
        let second = second.ok_or(failed(Errno::NOENT))?;
        if first == second {
            return Ok(());
        }
        if self.is_mount_point(&one, first) || self.is_mount_point(&other, second) {
            return Err(failed(Errno::BUSY));
        }
        self.edit(&Edit::Swap { one, other, numbers: (first, second) });
        Ok(())
    }

    fn remove_file(&self, path: &ManagedPath) -> Result<(), HostError> {
        let failed = |errno| HostError::new(FileOperation::Remove, path.as_str(), errno);
        let (place, stands) = self.place(path, FileOperation::Remove)?;
        let number = stands.ok_or(failed(Errno::NOENT))?;
        if self.image.borrow().names(number).is_some() {
            return Err(failed(Errno::ISDIR));
        }
        self.edit(&Edit::Unlink { place, number });
        Ok(())
    }

    fn remove_directory(&self, path: &ManagedPath) -> Result<(), HostError> {
        let failed = |errno| HostError::new(FileOperation::Remove, path.as_str(), errno);
        let (place, stands) = self.place(path, FileOperation::Remove)?;
        let number = stands.ok_or(failed(Errno::NOENT))?;
        if self.is_mount_point(&place, number) {
            return Err(failed(Errno::BUSY));
        }
        match self.image.borrow().names(number) {
            None => return Err(failed(Errno::NOTDIR)),
            Some(names) if !names.is_empty() => return Err(failed(Errno::NOTEMPTY)),
            Some(_) => {}
        }
        self.edit(&Edit::Unlink { place, number });
        Ok(())
    }

    fn sync(&self, paths: &[Option<ManagedPath>]) -> Result<(), HostError> {
        for path in paths {
            match self.flush(path.as_ref()) {
                Ok(()) | Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(errno) => {
                    let shown = path.as_ref().map_or("/", ManagedPath::as_str);
                    return Err(HostError::new(FileOperation::Sync, shown, errno));
                }
            }
        }
        Ok(())
    }
}
