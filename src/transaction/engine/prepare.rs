//! From steps to acts: everything that needs space or can be refused is prepared beside its place,
//! so that what is left are renames.

use std::collections::BTreeMap;

use rustix::io::Errno;

use crate::core::plan::steps::PlanStep;
use crate::core::state::journal::JournalMove;
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::{FileAttributes, FileKind};
use crate::host::fs::staging::StagingArea;
use crate::host::{FileOperation, HostDisk, HostError};

use super::labels::SelinuxLabels;

/// The most that is copied of a pre-image that cannot be linked, in bytes.
const PRE_IMAGE_BYTES: usize = 256 << 20;

/// What is staged, not yet durable.
#[derive(Debug, Default)]
pub(crate) struct PreparedMoves {
    /// The acts that make it visible, in order.
    pub(crate) moves: Vec<JournalMove>,
    /// Pre-images that are back in their place afterwards.
    pub(crate) discards: Vec<ManagedPath>,
    /// Staged files and directories.
    pub(crate) staged: Vec<ManagedPath>,
}

/// Stages what `steps` need.
pub(crate) fn prepare(
    disk: &dyn HostDisk,
    staging: &StagingArea<'_>,
    steps: &[PlanStep],
    labels: &SelinuxLabels,
) -> Result<PreparedMoves, HostError> {
    let mut preparing = Preparing {
        disk,
        staging,
        labels,
        result: PreparedMoves::default(),
        written: BTreeMap::new(),
        stands: BTreeMap::new(),
    };
    steps.iter().try_for_each(|step| preparing.step(step))?;
    Ok(preparing.result)
}

struct Preparing<'a> {
    disk: &'a dyn HostDisk,
    staging: &'a StagingArea<'a>,
    labels: &'a SelinuxLabels,
    result: PreparedMoves,
    /// Slots of the files that earlier steps put in place.
    written: BTreeMap<ManagedPath, ManagedPath>,
    /// What stands after the earlier steps, where they change it.
    stands: BTreeMap<ManagedPath, Option<FileKind>>,
}

impl Preparing<'_> {
    fn step(&mut self, step: &PlanStep) -> Result<(), HostError> {
        match step {
            PlanStep::MakeDirectory { path, attributes } => self.make_directory(path, *attributes),
            PlanStep::SetAttributes { path, attributes } => self.set_attributes(path, *attributes),
            PlanStep::Preserve { path, original } => {
                let slot = self.staging.slot(original)?;
                self.link_or_copy(path, &slot)?;
                self.put(original, slot)
            }
            PlanStep::Write { path, contents, attributes } => {
                let slot = self.staging.slot(path)?;
                self.disk.create_file(&slot, contents, *attributes, self.label(path))?;
                self.result.staged.push(slot.clone());
                self.written.insert(path.clone(), slot.clone());
                self.put(path, slot)
            }
            PlanStep::Symlink { path, target, owner } => {
                let slot = self.staging.slot(path)?;
                self.disk.create_symlink(&slot, target, *owner, self.label(path))?;
                self.put(path, slot)
            }
            PlanStep::HardLink { path, target } => {
                let slot = self.staging.slot(path)?;
                self.disk.hard_link(self.written.get(target).unwrap_or(target), &slot)?;
                self.put(path, slot)
            }
            PlanStep::Restore { path, original } => {
                let slot = self.staging.slot(path)?;
                self.link_or_copy(original, &slot)?;
                self.result.discards.push(original.clone());
                self.put(path, slot)
            }
            PlanStep::Remove { path } => self.remove(path),
            PlanStep::RemoveDirectory { path } => {
                let slot = self.staging.slot(path)?;
                self.moves(JournalMove::RemoveDirectory { path: path.clone(), slot }, None);
                Ok(())
            }
        }
    }

    /// Plans the act, after which `kind` stands at its path.
    fn moves(&mut self, act: JournalMove, kind: Option<FileKind>) {
        self.stands.insert(act.path().clone(), kind);
        self.result.moves.push(act);
    }

    /// What stands at `path` when its turn comes.
    fn stands(&self, path: &ManagedPath) -> Result<Option<FileKind>, HostError> {
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
            None => JournalMove::Create { path, slot },
            Some(FileKind::Directory) => {
                return Err(HostError::new(FileOperation::Rename, path.as_str(), Errno::ISDIR));
            }
            Some(_) => {
                let staged = self.disk.status(&slot)?;
                let gone = || HostError::new(FileOperation::Read, slot.as_str(), Errno::NOENT);
                let inode = staged.ok_or_else(gone)?.inode;
                JournalMove::Replace { path, slot, inode }
            }
        };
        self.moves(act, Some(FileKind::File));
        Ok(())
    }

    fn make_directory(&mut self, path: &ManagedPath, attributes: FileAttributes) -> Result<(), HostError> {
        let slot = self.staging.slot(path)?;
        self.disk.make_directory(&slot, attributes, self.label(path))?;
        self.result.staged.push(slot.clone());
        self.moves(JournalMove::MakeDirectory { path: path.clone(), slot }, Some(FileKind::Directory));
        Ok(())
    }

    fn set_attributes(&mut self, path: &ManagedPath, after: FileAttributes) -> Result<(), HostError> {
        match self.disk.status(path)? {
            Some(status) if status.kind == FileKind::Directory => {
                let (path, before) = (path.clone(), status.attributes);
                self.result.moves.push(JournalMove::SetAttributes { path, before, after });
                Ok(())
            }
            _ => Err(HostError::new(FileOperation::SetAttributes, path.as_str(), Errno::NOTDIR)),
        }
    }

    fn remove(&mut self, path: &ManagedPath) -> Result<(), HostError> {
        match self.stands(path)? {
            None => Ok(()),
            Some(FileKind::Directory) => {
                Err(HostError::new(FileOperation::Rename, path.as_str(), Errno::ISDIR))
            }
            Some(_) => {
                let slot = self.staging.slot(path)?;
                self.moves(JournalMove::Remove { path: path.clone(), slot }, None);
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
        let FileAttributes { uid, gid, .. } = status.attributes;
        match (status.kind, self.disk.link_target(from)?) {
            (FileKind::Symlink, Some(target)) => {
                self.disk.create_symlink(slot, &target, (uid, gid), label.as_deref())
            }
            (FileKind::File, _) => {
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
