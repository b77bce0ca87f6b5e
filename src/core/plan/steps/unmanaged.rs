//! What happens to paths that a configuration no longer lists.

use std::collections::BTreeSet;

use super::{Computing, Phase, PlanStep, StepInputs, VendorEntry};
use crate::core::state::record::GenerationRecord;
use crate::core::values::names::{ManagedPath, below};
use crate::core::values::tree::{FileEntry, PathState};

impl Computing<'_> {
    pub(crate) fn leave(&mut self, path: &ManagedPath) {
        let entry = self.situation.current.entries.get(path);
        // A directory of ours goes when it is empty, with those that were made on the way to it.
        if matches!(entry, Some(FileEntry::Directory { .. })) || self.is_taken(path) {
            return;
        }
        let node = self.node(path);
        if matches!(node, PathState::Directory { .. } | PathState::Other) {
            let reason = format!(
                "{} stands at {path}, which the configuration leaves and where it had put something else; move it away",
                node.describe()
            );
            return self.obstruct(path, reason);
        }
        let is_ours = !matches!(entry, Some(FileEntry::Absent | FileEntry::Unmasked));
        let path = path.clone();
        if let Some(VendorEntry(shipped)) = self.situation.vendor.get(&path) {
            if shipped.deviation(&node, self.situation.observed).is_some() {
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

    /// Whether something else that is wanted has the path, or needs it for a directory.
    fn is_taken(&self, path: &ManagedPath) -> bool {
        let StepInputs { desired, links, .. } = self.situation;
        self.cleared.contains(path)
            || self.returned.contains(path)
            || below(&desired.entries, path.as_str()).next().is_some()
            || links.after.contains_key(path)
    }

    /// Gives back what others wrote at paths that no configuration manages any longer: now, or
    /// later when a directory had to stand there in between.
    pub(crate) fn give_back(&mut self) {
        let desired = &self.situation.desired.entries;
        let is_leaf = |path: &ManagedPath| desired.get(path).is_some_and(FileEntry::is_leaf);
        let free = self.result.originals.iter().filter(|path| {
            let unwanted = match desired.get(*path) {
                None => true,
                // The mask that stood there would be lifted again and again.
                Some(entry @ FileEntry::Unmasked) => {
                    let kept = self.node(&GenerationRecord::original_of(path));
                    entry.deviation(&kept, self.situation.observed).is_none()
                }
                Some(_) => false,
            };
            let kept = self.situation.profile.keeps(path);
            unwanted && !kept && !self.is_taken(path) && !path.ancestors().any(|above| is_leaf(&above))
        });
        for path in free.cloned().collect::<Vec<_>>() {
            let original = GenerationRecord::original_of(&path);
            let is_kept = matches!(self.node(&original), PathState::File { .. } | PathState::Symlink { .. });
            let is_new = !self.situation.remembered.originals.contains(&path);
            let phase = match self.node(&path) {
                _ if is_new => continue,
                PathState::Directory { .. } if self.is_vacated(&path) => Phase::Returns,
                // Somebody else's directory, for now.
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

    /// Whether all of a directory is ours and leaves with this change.
    fn is_vacated(&self, directory: &ManagedPath) -> bool {
        let is_ours = |path: &ManagedPath| self.situation.remembered.created_directories.contains(path);
        let inside = self.situation.below.get(directory);
        is_ours(directory)
            && inside.into_iter().flatten().all(|path| match self.node(path) {
                PathState::Directory { .. } => is_ours(path),
                _ => self.leaving.contains(path) || self.situation.links.before.contains_key(path),
            })
    }

    /// Directories that were made for what has left go with it, once they are empty.
    pub(crate) fn forget_directories(&mut self) {
        let (desired, links) = (self.situation.desired, self.situation.links);
        let needed = |directory: &ManagedPath| {
            let directory = directory.as_str();
            let wanted = matches!(desired.entries.get(directory), Some(FileEntry::Directory { .. }))
                || below(&desired.entries, directory)
                    .any(|(_, entry)| !matches!(entry, FileEntry::Absent | FileEntry::Unmasked));
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
