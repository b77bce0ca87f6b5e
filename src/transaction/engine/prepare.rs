//! From steps to acts: everything that needs space or can be refused is prepared beside its place,
//! so that what is left are renames.

use std::collections::BTreeMap;

use rustix::io::Errno;

use crate::core::plan::steps::Step;
use crate::core::state::journal::Move;
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::{Attributes, Kind};
use crate::host::staging::Staging;
use crate::host::{Disk, HostError, Op};

use super::labels::Labels;

/// The most that is copied of a pre-image that cannot be linked, in bytes.
const PRE_IMAGE_BYTES: usize = 256 << 20;

/// What is staged, not yet durable.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    /// The acts that make it visible, in order.
    pub(crate) moves: Vec<Move>,
    /// Pre-images that are back in their place afterwards.
    pub(crate) discards: Vec<ManagedPath>,
    /// Staged files and directories.
    pub(crate) staged: Vec<ManagedPath>,
}

/// Stages what `steps` need.
pub(crate) fn prepare(
    disk: &dyn Disk,
    staging: &Staging<'_>,
    steps: &[Step],
    labels: &Labels,
) -> Result<Prepared, HostError> {
    let mut preparing = Preparing {
        disk,
        staging,
        labels,
        result: Prepared::default(),
        written: BTreeMap::new(),
        stands: BTreeMap::new(),
    };
    steps.iter().try_for_each(|step| preparing.step(step))?;
    Ok(preparing.result)
}

struct Preparing<'a> {
    disk: &'a dyn Disk,
    staging: &'a Staging<'a>,
    labels: &'a Labels,
    result: Prepared,
    /// Slots of the files that earlier steps put in place.
    written: BTreeMap<ManagedPath, ManagedPath>,
    /// What stands after the earlier steps, where they change it.
    stands: BTreeMap<ManagedPath, Option<Kind>>,
}

impl Preparing<'_> {
    fn step(&mut self, step: &Step) -> Result<(), HostError> {
        match step {
            Step::MakeDirectory { path, attributes } => self.make_directory(path, *attributes),
            Step::SetAttributes { path, attributes } => self.set_attributes(path, *attributes),
            Step::Preserve { path, original } => {
                let slot = self.staging.slot(original)?;
                self.link_or_copy(path, &slot)?;
                self.put(original, slot)
            }
            Step::Write { path, contents, attributes } => {
                let slot = self.staging.slot(path)?;
                self.disk.create_file(&slot, contents, *attributes, self.label(path))?;
                self.result.staged.push(slot.clone());
                self.written.insert(path.clone(), slot.clone());
                self.put(path, slot)
            }
            Step::Symlink { path, target, owner } => {
                let slot = self.staging.slot(path)?;
                self.disk.create_symlink(&slot, target, *owner, self.label(path))?;
                self.put(path, slot)
            }
            Step::HardLink { path, target } => {
                let slot = self.staging.slot(path)?;
                self.disk.hard_link(self.written.get(target).unwrap_or(target), &slot)?;
                self.put(path, slot)
            }
            Step::Restore { path, original } => {
                let slot = self.staging.slot(path)?;
                self.link_or_copy(original, &slot)?;
                self.result.discards.push(original.clone());
                self.put(path, slot)
            }
            Step::Remove { path } => self.remove(path),
            Step::RemoveDirectory { path } => {
                let slot = self.staging.slot(path)?;
                self.moves(Move::RemoveDirectory { path: path.clone(), slot }, None);
                Ok(())
            }
        }
    }

    /// Plans the act, after which `kind` stands at its path.
    fn moves(&mut self, act: Move, kind: Option<Kind>) {
        self.stands.insert(act.path().clone(), kind);
        self.result.moves.push(act);
    }

    /// What stands at `path` when its turn comes.
    fn stands(&self, path: &ManagedPath) -> Result<Option<Kind>, HostError> {
        if let Some(known) = self.stands.get(path) {
            return Ok(*known);
        }
        // Nothing is below what was moved away or has just been made.
        if path.ancestors().any(|above| self.stands.contains_key(&above)) {
            return Ok(None);
        }
        Ok(self.disk.status(path)?.map(|status| status.kind))
    }

    fn put(&mut self, path: &ManagedPath, slot: ManagedPath) -> Result<(), HostError> {
        let path = path.clone();
        let act = match self.stands(&path)? {
            None => Move::Create { path, slot },
            Some(Kind::Directory) => return Err(HostError::new(Op::Rename, path.as_str(), Errno::ISDIR)),
            Some(_) => {
                let staged = self.disk.status(&slot)?;
                let gone = || HostError::new(Op::Read, slot.as_str(), Errno::NOENT);
                let inode = staged.ok_or_else(gone)?.inode;
                Move::Replace { path, slot, inode }
            }
        };
        self.moves(act, Some(Kind::File));
        Ok(())
    }

    fn make_directory(&mut self, path: &ManagedPath, attributes: Attributes) -> Result<(), HostError> {
        let slot = self.staging.slot(path)?;
        self.disk.make_directory(&slot, attributes, self.label(path))?;
        self.result.staged.push(slot.clone());
        self.moves(Move::MakeDirectory { path: path.clone(), slot }, Some(Kind::Directory));
        Ok(())
    }

    fn set_attributes(&mut self, path: &ManagedPath, after: Attributes) -> Result<(), HostError> {
        match self.disk.status(path)? {
            Some(status) if status.kind == Kind::Directory => {
                let (path, before) = (path.clone(), status.attributes);
                self.result.moves.push(Move::SetAttributes { path, before, after });
                Ok(())
            }
            _ => Err(HostError::new(Op::SetAttributes, path.as_str(), Errno::NOTDIR)),
        }
    }

    fn remove(&mut self, path: &ManagedPath) -> Result<(), HostError> {
        match self.stands(path)? {
            None => Ok(()),
            Some(Kind::Directory) => Err(HostError::new(Op::Rename, path.as_str(), Errno::ISDIR)),
            Some(_) => {
                let slot = self.staging.slot(path)?;
                self.moves(Move::Remove { path: path.clone(), slot }, None);
                Ok(())
            }
        }
    }

    /// A second name costs nothing and keeps everything; across mounts only a copy can be made.
    fn link_or_copy(&mut self, from: &ManagedPath, slot: &ManagedPath) -> Result<(), HostError> {
        let Err(error) = self.disk.hard_link(from, slot) else { return Ok(()) };
        let Some(status) = self.disk.status(from)?.filter(|_| error.errno() == Some(Errno::XDEV)) else {
            return Err(error);
        };
        let label = self.disk.label(from)?;
        let Attributes { uid, gid, .. } = status.attributes;
        match (status.kind, self.disk.link_target(from)?) {
            (Kind::Symlink, Some(target)) => {
                self.disk.create_symlink(slot, &target, (uid, gid), label.as_deref())
            }
            (Kind::File, _) => {
                let contents = self.disk.read(from, PRE_IMAGE_BYTES)?.unwrap_or_default();
                self.disk.create_file(slot, &contents, status.attributes, label.as_deref())?;
                self.result.staged.push(slot.clone());
                Ok(())
            }
            _ => Err(error),
        }
    }

    fn label(&self, path: &ManagedPath) -> Option<&[u8]> {
        self.labels.get(path).map(Vec::as_slice)
    }
}
