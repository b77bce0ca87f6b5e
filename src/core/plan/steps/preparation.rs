//! Preparation of paths for desired files: store pre-images, create parent directories, remove obsolete files
//! that are in the way.

use super::{Computing, Phase, PlanStep};
use crate::core::config::host_config::UNIT_DIRECTORY;
use crate::core::plan::steps::VendorEntry;
use crate::core::state::record::GenerationRecord;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::ORIGINALS;
use crate::core::values::tree::{FileAttributes, FileEntry, PathState};

impl Computing<'_> {
    /// Store the pre-image of a path that becomes managed. A file of the image needs none: `/usr/etc` keeps
    /// it.
    pub(crate) fn preserve(&mut self, path: &ManagedPath, node: &PathState) {
        let shipped = self
            .situation
            .vendor
            .get(path)
            .is_some_and(|VendorEntry(entry)| entry.drift(node, self.situation.observed).is_none());
        let leaf = matches!(node, PathState::File { .. } | PathState::Symlink { .. });
        if shipped || !leaf || self.result.originals.contains(path) {
            return;
        }
        let original = GenerationRecord::original_of(path);
        for above in original.ancestors().collect::<Vec<_>>().into_iter().rev() {
            if self.node(&above) == PathState::Absent {
                let private = above.is_within(ORIGINALS) || above.is_within("/var/lib/flameholder");
                let attributes = FileAttributes { mode: if private { 0o700 } else { 0o755 }, uid: 0, gid: 0 };
                if self.made.insert(above.clone()) {
                    self.push(Phase::Preserve, PlanStep::MakeDirectory { path: above, attributes });
                }
            }
        }
        self.push(Phase::Preserve, PlanStep::Preserve { path: path.clone(), original });
        self.result.originals.insert(path.clone());
    }

    pub(crate) fn make_parents(&mut self, path: &ManagedPath) {
        let above: Vec<ManagedPath> = path.ancestors().collect();
        for parent in above.into_iter().rev() {
            if matches!(self.situation.desired.entries.get(&parent), Some(FileEntry::Directory { .. })) {
                continue;
            }
            match self.node(&parent) {
                // The link may lead to a directory of the tree; one that leaves the root was refused before.
                PathState::Directory { .. } => continue,
                PathState::Symlink { .. } if !self.leaving.contains(&parent) => {
                    if let Some(reason) = self.untrusted_reason(&parent, path) {
                        return self.obstruct(&parent, reason);
                    }
                    continue;
                }
                PathState::Absent => {}
                _ if self.leaving.contains(&parent) => {
                    if self.cleared.insert(parent.clone()) {
                        self.push(Phase::Clear, PlanStep::Remove { path: parent.clone() });
                    }
                }
                found => {
                    let reason = format!(
                        "{parent} is {}, but {path} needs a directory there; move it away",
                        found.describe()
                    );
                    return self.obstruct(&parent, reason);
                }
            }
            let own = self.situation.desired.owned_parents.get(&parent);
            let attributes = own.copied().unwrap_or(FileAttributes { mode: 0o755, uid: 0, gid: 0 });
            self.result.created_directories.insert(parent.clone());
            if self.made.insert(parent.clone()) {
                self.push(Phase::Directories, PlanStep::MakeDirectory { path: parent, attributes });
            }
        }
    }

    /// Return the reason why a symbolic link must not be followed, if there is one: a user who can replace it
    /// could choose the place that root writes to.
    pub(crate) fn untrusted_reason(&self, link: &ManagedPath, path: &ManagedPath) -> Option<String> {
        let holder = link.parent().map(|holder| self.node(&holder));
        let is_roots = match holder {
            Some(PathState::Directory { attributes, .. }) => {
                attributes.uid == 0 && attributes.mode & 0o022 == 0
            }
            _ => true,
        };
        let of_unit = link.is_within(UNIT_DIRECTORY);
        let why = match (is_roots, of_unit) {
            (false, _) => "users other than root can change its target",
            (true, true) => "drop-in and dependency directories of units must not be links",
            (true, false) => return None,
        };
        Some(format!(
            "{link}, a parent directory of {path}, is a symbolic link, and {why}; replace it with a directory"
        ))
    }

    /// Remove a directory at the path of a desired file, if every file below it is managed and no longer
    /// desired. Return true if the path is free afterwards.
    pub(crate) fn clear_directory(&mut self, path: &ManagedPath) -> bool {
        let Some(below) = self.situation.below.get(path).cloned() else {
            let reason = format!(
                "{path} is a directory, but must be a file; it holds a file whose name has invalid UTF-8 or control characters; move it away"
            );
            self.obstruct(path, reason);
            return false;
        };
        let foreign: Vec<&ManagedPath> = below
            .iter()
            .filter(|path| match self.node(path) {
                PathState::Directory { .. } => false,
                _ => !self.leaving.contains(*path),
            })
            .collect();
        if let Some(first) = foreign.first() {
            let reason = format!(
                "{path} is a directory, but must be a file; it holds {} that the config does not manage, such as {first}; move it away",
                if foreign.len() == 1 { "a file".to_owned() } else { format!("{} files", foreign.len()) },
            );
            self.obstruct(path, reason);
            return false;
        }
        for gone in below.iter().rev().chain([path]) {
            let is_directory = matches!(self.node(gone), PathState::Directory { .. });
            let path = gone.clone();
            if self.cleared.insert(path.clone()) {
                let step =
                    if is_directory { PlanStep::RemoveDirectory { path } } else { PlanStep::Remove { path } };
                self.push(Phase::Clear, step);
            }
        }
        true
    }
}
