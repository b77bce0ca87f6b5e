//! Paths that leave management: remove them, or bring back the image's file or the stored pre-image.

use std::collections::BTreeSet;

use super::{Computing, Phase, PlanStep, StepInputs, VendorEntry};
use crate::core::state::record::GenerationRecord;
use crate::core::values::names::{ManagedPath, below};
use crate::core::values::tree::{FileEntry, PathState};

impl Computing<'_> {
    pub(crate) fn unmanage(&mut self, path: &ManagedPath) {
        let entry = self.situation.current.entries.get(path);
        // The directory is removed by `forget_directories` if it is empty by then.
        if matches!(entry, Some(FileEntry::Directory { .. })) || self.is_taken(path) {
            return;
        }
        let node = self.node(path);
        if matches!(node, PathState::Directory { .. } | PathState::Other) {
            let reason = format!(
                "{path} is {}, in place of the file or link that the config no longer lists; move it away",
                node.describe()
            );
            return self.obstruct(path, reason);
        }
        let is_ours = match entry {
            Some(FileEntry::Absent | FileEntry::Unmasked) => false,
            Some(entry @ FileEntry::AbsentOrEmpty { .. }) => {
                entry.drift(&node, self.situation.observed).is_none()
            }
            _ => true,
        };
        let path = path.clone();
        if let Some(VendorEntry(shipped)) = self.situation.vendor.get(&path) {
            if shipped.drift(&node, self.situation.observed).is_some() {
                let step = match shipped.clone() {
                    FileEntry::Symlink { target, owner } => PlanStep::Symlink { path, target, owner },
                    FileEntry::File { contents, attributes } => {
                        PlanStep::Write { path, contents, attributes }
                    }
                    _ => return,
                };
                self.push(Phase::Removals, step);
            }
        } else if is_ours && matches!(node, PathState::File { .. } | PathState::Symlink { .. }) {
            self.push(Phase::Removals, PlanStep::Remove { path });
        }
    }

    /// Return true if the path is needed otherwise: for another desired file, as a directory, or as a link.
    fn is_taken(&self, path: &ManagedPath) -> bool {
        let StepInputs { desired, links, .. } = self.situation;
        self.cleared.contains(path)
            || self.returned.contains(path)
            || below(&desired.entries, path.as_str()).next().is_some()
            || links.after.contains_key(path)
    }

    /// Restore the pre-images of paths that are no longer managed. Where a directory took the place of a
    /// file, this waits until the directory is removed.
    pub(crate) fn restore_originals(&mut self) {
        let desired = &self.situation.desired.entries;
        let is_leaf = |path: &ManagedPath| desired.get(path).is_some_and(FileEntry::is_leaf);
        let free = self.result.originals.iter().filter(|path| {
            let unwanted = match desired.get(*path) {
                None => true,
                // A pre-image that is a mask stays stored, since the next plan would unmask it again.
                Some(entry @ FileEntry::Unmasked) => {
                    let kept = self.node(&GenerationRecord::original_of(path));
                    entry.drift(&kept, self.situation.observed).is_none()
                }
                Some(_) => false,
            };
            let kept = self.situation.profile.never_deletes(path);
            unwanted && !kept && !self.is_taken(path) && !path.ancestors().any(|above| is_leaf(&above))
        });
        for path in free.cloned().collect::<Vec<_>>() {
            let original = GenerationRecord::original_of(&path);
            let is_kept = matches!(self.node(&original), PathState::File { .. } | PathState::Symlink { .. });
            let is_new = !self.situation.prior.originals.contains(&path);
            let phase = match self.node(&path) {
                _ if is_new => continue,
                PathState::Directory { .. } if self.is_vacated(&path) => Phase::Returns,
                // An administrator's directory: the pre-image stays stored until it is gone.
                PathState::Directory { .. } | PathState::Other | PathState::Unreachable => continue,
                _ => Phase::Removals,
            };
            self.result.originals.remove(&path);
            if is_kept {
                self.make_parents(&path);
                self.returned.insert(path.clone());
                self.push(phase, PlanStep::Restore { path, original });
            }
        }
    }

    /// Return true if this change removes all of a directory's content, and the directory itself.
    fn is_vacated(&self, directory: &ManagedPath) -> bool {
        let is_ours = |path: &ManagedPath| self.situation.prior.created_directories.contains(path);
        let inside = self.situation.below.get(directory);
        is_ours(directory)
            && inside.into_iter().flatten().all(|path| match self.node(path) {
                PathState::Directory { .. } => is_ours(path),
                _ => self.leaving.contains(path) || self.situation.links.before.contains_key(path),
            })
    }

    /// Plan the removal of directories that were created for paths which are no longer managed, if they are
    /// empty by then.
    pub(crate) fn forget_directories(&mut self) {
        let (desired, links) = (self.situation.desired, self.situation.links);
        let needed = |directory: &ManagedPath| {
            let directory = directory.as_str();
            let wanted = matches!(desired.entries.get(directory), Some(FileEntry::Directory { .. }))
                || below(&desired.entries, directory)
                    .any(|(_, entry)| entry.is_leaf() || matches!(entry, FileEntry::Directory { .. }));
            wanted || below(&links.after, directory).next().is_some()
        };
        let (kept, gone): (BTreeSet<_>, BTreeSet<_>) =
            self.result.created_directories.iter().cloned().partition(|directory| needed(directory));
        self.result.created_directories = kept;
        for path in gone.into_iter().rev() {
            if matches!(self.node(&path), PathState::Directory { .. }) {
                self.push(Phase::Removals, PlanStep::RemoveDirectory { path });
            }
        }
    }
}
