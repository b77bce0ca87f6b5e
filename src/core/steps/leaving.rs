//! What happens to paths that a configuration no longer lists.

use std::collections::{BTreeMap, BTreeSet};

use super::{Computing, Phase, Step, Vendor};
use crate::core::generation::Record;
use crate::core::names::{ManagedPath, below};
use crate::core::tree::{Entry, Node};

impl Computing<'_> {
    pub(super) fn leave(&mut self, path: &ManagedPath) {
        let cleared = self.cleared.contains(path);
        let parent_of_wanted = below(&self.situation.desired.entries, path.as_str()).next().is_some();
        let original = Record::original_of(path);
        let node = self.node(path);
        if matches!(self.situation.current.entries.get(path), Some(Entry::Directory { .. })) {
            if !parent_of_wanted {
                self.push(Phase::Removals, Step::RemoveDirectory { path: path.clone() });
            }
            return;
        }
        if cleared || parent_of_wanted || self.situation.links.after.contains_key(path) {
            return;
        }
        let path = path.clone();
        if self.result.originals.remove(&path) {
            self.push(Phase::Removals, Step::Restore { path, original });
        } else if let Some(Vendor(entry)) = self.situation.vendor.get(&path) {
            if entry.deviation(&node, self.situation.observed).is_some() {
                let step = match entry.clone() {
                    Entry::Symlink { target, owner } => Step::Symlink { path, target, owner },
                    Entry::File { contents, attributes } => Step::Write { path, contents, attributes },
                    _ => return,
                };
                self.push(Phase::Removals, step);
            }
        } else if matches!(node, Node::File { .. } | Node::Symlink { .. })
            && !matches!(self.situation.current.entries.get(&path), Some(Entry::Absent | Entry::Unmasked))
        {
            self.push(Phase::Removals, Step::Remove { path });
        }
    }

    /// Directories that were made for what has left go with it, once they are empty.
    pub(super) fn forget_directories(&mut self) {
        let (desired, links) = (self.situation.desired, self.situation.links);
        let originals: BTreeMap<ManagedPath, ()> =
            self.result.originals.iter().map(|path| (path.clone(), ())).collect();
        let needed = |directory: &ManagedPath| {
            let directory = directory.as_str();
            let wanted = below(&desired.entries, directory)
                .any(|(_, entry)| !matches!(entry, Entry::Absent | Entry::Unmasked));
            wanted
                || below(&links.after, directory).next().is_some()
                || below(&originals, directory).next().is_some()
        };
        let (kept, gone): (BTreeSet<_>, BTreeSet<_>) =
            self.result.created_directories.iter().cloned().partition(|directory| needed(directory));
        self.result.created_directories = kept;
        for path in gone.into_iter().rev() {
            if matches!(self.node(&path), Node::Directory { .. }) {
                self.push(Phase::Removals, Step::RemoveDirectory { path });
            }
        }
    }
}
