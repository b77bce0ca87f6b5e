//! Preparation of a change: turns steps into moves. Everything that needs disk space or can fail is staged
//! beside its destination, so that only renames are left.

use std::collections::BTreeMap;

use rustix::io::Errno;

use super::labels::SelinuxLabels;
use super::moves;
use crate::core::config::accounts;
use crate::core::config::host_config::CORE_USER;
use crate::core::plan::steps::PlanStep;
use crate::core::state::journal::{JournalMove, StagedContent};
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::{ContentDigest, FileAttributes, FileKind};
use crate::host::facts::accounts::ACCOUNT_FILE_BYTES;
use crate::host::fs::staging::StagingArea;
use crate::host::{FileOperation, FileStatus, HostDisk, HostError, SyncQueue};

/// Maximum size of a pre-image that has to be copied, because it lies on another mount and cannot be
/// hard-linked.
const PRE_IMAGE_BYTES: usize = 256 << 20;

/// Staged change.
#[derive(Debug, Default)]
pub(crate) struct PreparedMoves {
    /// Moves that make the change visible, in order.
    pub(crate) moves: Vec<JournalMove>,
    /// Restored pre-images, which are deleted after the change.
    pub(crate) discards: Vec<ManagedPath>,
}

/// Failed step, with the path that it would have changed: the error may name a path beside it.
#[derive(Debug, thiserror::Error)]
#[error("{path}")]
pub struct FailedPathStep {
    pub path: ManagedPath,
    #[source]
    pub error: HostError,
}

/// Stage the content of `steps` and return their moves. Each staged file is passed to `sync`.
pub(crate) fn prepare(
    disk: &dyn HostDisk,
    staging: &StagingArea<'_>,
    steps: &[PlanStep],
    labels: &SelinuxLabels,
    sync: &mut SyncQueue<'_>,
) -> Result<PreparedMoves, FailedPathStep> {
    let mut preparing = Preparing {
        disk,
        staging,
        labels,
        sync,
        result: PreparedMoves::default(),
        written: BTreeMap::new(),
        kinds: BTreeMap::new(),
    };
    for step in steps {
        preparing.step(step).map_err(|error| FailedPathStep { path: step.path().clone(), error })?;
    }
    Ok(preparing.result)
}

struct Preparing<'a, 'q> {
    disk: &'a dyn HostDisk,
    staging: &'a StagingArea<'a>,
    labels: &'a SelinuxLabels,
    sync: &'a mut SyncQueue<'q>,
    result: PreparedMoves,
    /// Slots of the files that earlier steps write, by path; the target of a hard link.
    written: BTreeMap<ManagedPath, ManagedPath>,
    /// File types of the paths that earlier steps change, `None` if removed.
    kinds: BTreeMap<ManagedPath, Option<FileKind>>,
}

impl Preparing<'_, '_> {
    fn step(&mut self, step: &PlanStep) -> Result<(), HostError> {
        match step {
            PlanStep::MakeDirectory { path, attributes } => self.make_directory(path, *attributes),
            PlanStep::SetAttributes { path, attributes } => self.set_attributes(path, *attributes),
            PlanStep::Preserve { path, original } => {
                let slot = self.staging.slot(original)?;
                self.link_or_copy(path, &slot)?;
                self.put(original, slot, None)
            }
            PlanStep::Write { path, contents, attributes } => self.write(path, contents, *attributes),
            PlanStep::SetPassword { path, hash, today } => self.set_password(path, hash, *today),
            PlanStep::Symlink { path, target, owner } => {
                let slot = self.staging.slot(path)?;
                self.disk.create_symlink(&slot, target, *owner, self.label(path))?;
                self.put(path, slot, Some(target.as_bytes()))
            }
            PlanStep::HardLink { path, target } => {
                let slot = self.staging.slot(path)?;
                self.disk.hard_link(self.written.get(target).unwrap_or(target), &slot)?;
                self.put(path, slot, None)
            }
            PlanStep::Restore { path, original } => {
                let slot = self.staging.slot(path)?;
                self.link_or_copy(original, &slot)?;
                self.result.discards.push(original.clone());
                self.put(path, slot, None)
            }
            PlanStep::Remove { path } => self.remove(path),
            PlanStep::RemoveDirectory { path } => {
                let slot = self.staging.slot(path)?;
                self.moves(JournalMove::RemoveDirectory { path: path.clone(), slot }, None);
                Ok(())
            }
        }
    }

    /// Add a move, after which `kind` is at its path.
    fn moves(&mut self, act: JournalMove, kind: Option<FileKind>) {
        self.kinds.insert(act.path().clone(), kind);
        self.result.moves.push(act);
    }

    /// Return the file type that `path` has after the earlier steps.
    fn kind_at(&self, path: &ManagedPath) -> Result<Option<FileKind>, HostError> {
        if let Some(known) = self.kinds.get(path) {
            return Ok(*known);
        }
        // Below a directory that earlier steps move or create, nothing exists.
        if path.ancestors().any(|above| self.kinds.contains_key(&above)) {
            return Ok(None);
        }
        Ok(self.disk.status(path)?.map(|status| status.kind))
    }

    /// Add the move that moves `slot` to `path`. Where a file is replaced, `contents` are noted, the target of a link or those of
    /// a file; they are read if the caller does not know them.
    fn put(
        &mut self,
        path: &ManagedPath,
        slot: ManagedPath,
        contents: Option<&[u8]>,
    ) -> Result<(), HostError> {
        let path = path.clone();
        let act = match self.kind_at(&path)? {
            None => JournalMove::Create { path, slot },
            Some(FileKind::Directory) => {
                return Err(HostError::new(FileOperation::Rename, path.as_str(), Errno::ISDIR));
            }
            Some(_) => {
                let staged = self.disk.status(&slot)?;
                let gone = || HostError::new(FileOperation::Read, slot.as_str(), Errno::NOENT);
                let FileStatus { inode, attributes, .. } = staged.ok_or_else(gone)?;
                let digest = match contents {
                    Some(contents) => Some(ContentDigest::of(contents)),
                    None => moves::content_digest(self.disk, &slot)?,
                };
                let content = digest.map(|digest| StagedContent { digest, attributes });
                JournalMove::Replace { path, slot, inode, content }
            }
        };
        self.moves(act, Some(FileKind::File));
        Ok(())
    }

    fn write(
        &mut self,
        path: &ManagedPath,
        contents: &[u8],
        attributes: FileAttributes,
    ) -> Result<(), HostError> {
        let slot = self.staging.slot(path)?;
        self.disk.create_file(&slot, contents, attributes, self.label(path))?;
        (self.sync)(Some(slot.clone()));
        self.written.insert(path.clone(), slot.clone());
        self.put(path, slot, Some(contents))
    }

    /// Write the shadow file as it is now, with another password of the user `core`.
    fn set_password(&mut self, path: &ManagedPath, hash: &str, today: u64) -> Result<(), HostError> {
        let found = self.disk.read(path, ACCOUNT_FILE_BYTES)?.zip(self.disk.status(path)?);
        let edited = found.and_then(|(text, status)| {
            Some((accounts::with_password(&text, CORE_USER, hash, today)?, status.attributes))
        });
        let Some((text, attributes)) = edited else {
            return Err(HostError::NoShadowEntry { path: path.to_string(), user: CORE_USER });
        };
        self.write(path, &text, attributes)
    }

    fn make_directory(&mut self, path: &ManagedPath, attributes: FileAttributes) -> Result<(), HostError> {
        let slot = self.staging.slot(path)?;
        self.disk.make_directory(&slot, attributes, self.label(path))?;
        (self.sync)(Some(slot.clone()));
        self.moves(JournalMove::MakeDirectory { path: path.clone(), slot }, Some(FileKind::Directory));
        Ok(())
    }

    fn set_attributes(&mut self, path: &ManagedPath, after: FileAttributes) -> Result<(), HostError> {
        match self.disk.status(path)? {
            Some(status) if matches!(status.kind, FileKind::Directory | FileKind::File) => {
                let (path, before) = (path.clone(), status.attributes);
                self.result.moves.push(JournalMove::SetAttributes { path, before, after });
                Ok(())
            }
            _ => Err(HostError::new(FileOperation::SetAttributes, path.as_str(), Errno::NOTDIR)),
        }
    }

    fn remove(&mut self, path: &ManagedPath) -> Result<(), HostError> {
        match self.kind_at(path)? {
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

    /// Hard-link a pre-image into its slot, which keeps all attributes without copying. Across mounts a
    /// copy is made.
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
                (self.sync)(Some(slot.clone()));
                Ok(())
            }
            _ => Err(error),
        }
    }

    fn label(&self, path: &ManagedPath) -> Option<&[u8]> {
        self.labels.get(path).map(Vec::as_slice)
    }
}
