//! Steps on a tree: all content is staged first, then made visible by renames, each with its way
//! back; a failure takes all of them back.

use std::collections::{BTreeMap, BTreeSet};

use rustix::fs::FileType;
use rustix::io::Errno;

use crate::core::names::ManagedPath;
use crate::core::steps::Step;
use crate::core::tree::{Attributes, Node};
use crate::host::staging::Staging;
use crate::host::{Effects, HostError, Op, Root};

/// The most that is copied of a pre-image that cannot be linked, in bytes.
const PRE_IMAGE_BYTES: usize = 256 << 20;

/// Where the SELinux labels of new files come from.
#[derive(Debug)]
pub enum Labels {
    /// From what they replace, or else from their directory, as the kernel would.
    Inherited,
    /// From the deployment's policy, by path.
    Policy(BTreeMap<ManagedPath, Vec<u8>>),
}

/// Why steps were not carried out.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// Nothing was visible yet, or all of it is taken back.
    #[error("the change was not applied, everything is as it was before")]
    Undone(#[source] HostError),
    /// All of it is in place, and what was staged could not be removed.
    #[error(
        "the change is applied, but its {} directories could not be removed; remove them",
        crate::core::decode::STAGING_NAME
    )]
    Leftover(#[source] HostError),
    /// Taking back failed as well.
    #[error(
        "the change failed ({failed}) and could not be taken back; what remains of it lies in the {} directories",
        crate::core::decode::STAGING_NAME
    )]
    Stuck {
        /// What failed first.
        failed: HostError,
        /// What failed while taking back.
        #[source]
        undo: HostError,
    },
}

/// The way back of one act.
#[derive(Debug)]
enum Undo {
    RemoveDirectory(ManagedPath),
    MakeDirectory(ManagedPath, Attributes),
    SetAttributes(ManagedPath, Attributes),
    RemoveFile(ManagedPath),
    Exchange(ManagedPath, ManagedPath),
    Rename { from: ManagedPath, to: ManagedPath },
}

/// Carries `steps` out in order by `effects` on the tree that `root` reads. The caller holds the
/// lock of that tree.
pub fn apply(root: &Root, effects: &dyn Effects, steps: &[Step], labels: &Labels) -> Result<(), LiveError> {
    if steps.is_empty() {
        return Ok(());
    }
    let staging = Staging::open(root, effects).map_err(LiveError::Undone)?;
    let mut live = Live { root, effects, labels, undo: Vec::new(), touched: BTreeSet::new() };
    let done = live.stage(&staging, steps).and_then(|staged| {
        let visible = steps.iter().zip(staged).try_for_each(|(step, slot)| live.show(step, slot));
        visible.and_then(|()| live.sync())
    });
    let failed = match done {
        Ok(()) => None,
        Err(failed) => match live.take_back() {
            Ok(()) => Some(LiveError::Undone(failed)),
            Err(undo) => return Err(LiveError::Stuck { failed, undo }),
        },
    };
    let cleared = live.forget_restored(steps, failed.is_none()).and_then(|()| staging.close());
    match failed {
        Some(failed) => Err(failed),
        None => cleared.map_err(LiveError::Leftover),
    }
}

struct Live<'a> {
    root: &'a Root,
    effects: &'a dyn Effects,
    labels: &'a Labels,
    undo: Vec<Undo>,
    /// Directories whose names changed.
    touched: BTreeSet<ManagedPath>,
}

impl Live<'_> {
    /// Prepares everything that needs space or can be refused, without any visible change.
    /// Returns the staged path of each step that has one.
    fn stage(&self, staging: &Staging<'_>, steps: &[Step]) -> Result<Vec<Option<ManagedPath>>, HostError> {
        let mut slots = Vec::with_capacity(steps.len());
        for step in steps {
            slots.push(match step {
                Step::Write { path, contents, attributes } => {
                    let slot = staging.slot(path)?;
                    let label = self.label(path)?;
                    self.effects.create_file(&slot, contents, *attributes, label.as_deref())?;
                    Some(slot)
                }
                Step::Symlink { path, target, owner } => {
                    let slot = staging.slot(path)?;
                    let label = self.label(path)?;
                    self.effects.create_symlink(&slot, target, *owner, label.as_deref())?;
                    Some(slot)
                }
                Step::Restore { path, original } => {
                    let slot = staging.slot(path)?;
                    self.link_or_copy(original, &slot)?;
                    Some(slot)
                }
                Step::Remove { path } | Step::HardLink { path, .. } => Some(staging.slot(path)?),
                _ => None,
            });
        }
        Ok(slots)
    }

    fn show(&mut self, step: &Step, slot: Option<ManagedPath>) -> Result<(), HostError> {
        self.touched.extend(step.path().parent());
        match (step, slot) {
            (Step::MakeDirectory { path, attributes }, _) => {
                let label = self.label(path)?;
                self.effects.make_directory(path, *attributes, label.as_deref())?;
                self.undo.push(Undo::RemoveDirectory(path.clone()));
            }
            (Step::SetAttributes { path, attributes }, _) => {
                if let Node::Directory { attributes: before, .. } = self.root.node(path)? {
                    self.undo.push(Undo::SetAttributes(path.clone(), before));
                }
                self.effects.set_attributes(path, *attributes)?;
            }
            (Step::Preserve { path, original }, _) => match self.link_or_copy(path, original) {
                Ok(()) => self.undo.push(Undo::RemoveFile(original.clone())),
                // The record would name one that is needed: this one a killed run left.
                Err(error) if error.errno() == Some(Errno::EXIST) => {
                    self.effects.remove_file(original)?;
                    self.link_or_copy(path, original)?;
                    self.undo.push(Undo::RemoveFile(original.clone()));
                }
                Err(error) => return Err(error),
            },
            (Step::Remove { path }, Some(slot)) => self.take_away(path, slot)?,
            (Step::HardLink { path, target }, Some(slot)) => {
                self.effects.hard_link(target, &slot)?;
                self.put(slot, path)?;
            }
            (
                Step::Write { path, .. } | Step::Symlink { path, .. } | Step::Restore { path, .. },
                Some(slot),
            ) => {
                self.put(slot, path)?;
            }
            (Step::RemoveDirectory { path }, _) => self.remove_directory(path)?,
            (_, None) => {}
        }
        Ok(())
    }

    /// Puts a staged leaf in place; what stood there takes its slot.
    fn put(&mut self, slot: ManagedPath, path: &ManagedPath) -> Result<(), HostError> {
        self.ensure_no_directory(path)?;
        if self.root.exists(path)? {
            self.effects.exchange(&slot, path)?;
            self.undo.push(Undo::Exchange(slot, path.clone()));
        } else {
            self.effects.rename(&slot, path)?;
            self.undo.push(Undo::Rename { from: path.clone(), to: slot });
        }
        Ok(())
    }

    /// What takes a slot is deleted in the end, and a directory may hold anything.
    fn ensure_no_directory(&self, path: &ManagedPath) -> Result<(), HostError> {
        match self.root.kind(path)? {
            Some(FileType::Directory) => Err(HostError::new(Op::Rename, path.as_str(), Errno::ISDIR)),
            _ => Ok(()),
        }
    }

    fn take_away(&mut self, path: &ManagedPath, slot: ManagedPath) -> Result<(), HostError> {
        self.ensure_no_directory(path)?;
        match self.effects.rename(path, &slot) {
            Ok(()) => self.undo.push(Undo::Rename { from: slot, to: path.clone() }),
            Err(error) if error.errno() == Some(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn remove_directory(&mut self, path: &ManagedPath) -> Result<(), HostError> {
        let Node::Directory { attributes, .. } = self.root.node(path)? else {
            return Ok(());
        };
        match self.effects.remove_directory(path) {
            Ok(()) => self.undo.push(Undo::MakeDirectory(path.clone(), attributes)),
            // Somebody else keeps something there, so it stays.
            Err(error) if matches!(error.errno(), Some(Errno::NOTEMPTY | Errno::EXIST | Errno::BUSY)) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// A second name costs nothing and keeps everything; across mounts only a copy can be made.
    fn link_or_copy(&self, from: &ManagedPath, to: &ManagedPath) -> Result<(), HostError> {
        let linked = self.effects.hard_link(from, to);
        let Err(error) = linked else { return Ok(()) };
        if error.errno() != Some(Errno::XDEV) {
            return Err(error);
        }
        let label = self.root.label(from)?;
        match self.root.node(from)? {
            Node::Symlink { target, owner, .. } => {
                self.effects.create_symlink(to, &target, owner, label.as_deref())
            }
            Node::File { attributes, .. } => {
                let contents = self.root.read(from, PRE_IMAGE_BYTES)?.unwrap_or_default();
                self.effects.create_file(to, &contents, attributes, label.as_deref())
            }
            _ => Err(error),
        }
    }

    fn label(&self, path: &ManagedPath) -> Result<Option<Vec<u8>>, HostError> {
        match self.labels {
            Labels::Policy(labels) => Ok(labels.get(path).cloned()),
            Labels::Inherited => {
                let nearest = std::iter::once(path.clone()).chain(path.ancestors());
                for candidate in nearest {
                    // What cannot be reached is as good as absent: it is about to be cleared away.
                    if matches!(self.root.exists(&candidate), Ok(true)) {
                        return self.root.label(&candidate);
                    }
                }
                Ok(None)
            }
        }
    }

    /// Makes every changed name durable.
    fn sync(&self) -> Result<(), HostError> {
        for directory in &self.touched {
            match self.effects.sync_directory(directory) {
                // Removed by a later step.
                Err(error) if matches!(error.errno(), Some(Errno::NOENT | Errno::NOTDIR)) => {}
                result => result?,
            }
        }
        Ok(())
    }

    /// Undoes newest first.
    fn take_back(&mut self) -> Result<(), HostError> {
        while let Some(undo) = self.undo.pop() {
            match undo {
                Undo::RemoveDirectory(path) => self.effects.remove_directory(&path)?,
                Undo::MakeDirectory(path, attributes) => {
                    self.effects.make_directory(&path, attributes, None)?;
                }
                Undo::SetAttributes(path, attributes) => self.effects.set_attributes(&path, attributes)?,
                Undo::RemoveFile(path) => self.effects.remove_file(&path)?,
                Undo::Exchange(a, b) => self.effects.exchange(&a, &b)?,
                Undo::Rename { from, to } => self.effects.rename(&from, &to)?,
            }
        }
        self.sync()
    }

    /// Pre-images that are back in their place are no longer kept.
    fn forget_restored(&self, steps: &[Step], applied: bool) -> Result<(), HostError> {
        let restored = steps.iter().filter_map(|step| match step {
            Step::Restore { original, .. } if applied => Some(original),
            _ => None,
        });
        for original in restored {
            self.effects.remove_file(original)?;
        }
        Ok(())
    }
}
