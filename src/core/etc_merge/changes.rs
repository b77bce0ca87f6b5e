//! Local changes of `/etc`: paths that libostree's `ostree_diff_dirs` finds modified, removed or added
//! between `/usr/etc` and `/etc`.
//!
//! Extended attributes do not count, because SELinux labels in `/usr/etc` and `/etc` differ. Below a path
//! whose type changed nothing is compared. libostree lists directories in the order of the file system; here
//! they are sorted, so the first of several refusals may be another one than libostree reports.

use std::path::{Path, PathBuf};

use super::tree::{EtcEntries, EtcNode};

/// Changed paths relative to `/etc`, in libostree's order: a directory before its entries.
#[derive(Debug, Default)]
pub(super) struct LocalChanges {
    pub(super) removed: Vec<PathBuf>,
    pub(super) modified: Vec<PathBuf>,
    pub(super) added: Vec<PathBuf>,
}

impl LocalChanges {
    pub(super) fn between(base: &EtcNode, local: &EtcNode) -> Self {
        let mut changes = Self::default();
        if let (Some(base), Some(local)) = (base.entries(), local.entries()) {
            changes.compare(base, local, Path::new(""));
        }
        changes
    }

    fn compare(&mut self, base: &EtcEntries, local: &EtcEntries, above: &Path) {
        for (name, before) in base {
            let path = above.join(name);
            let Some(now) = local.get(name) else {
                self.removed.push(path);
                continue;
            };
            if before.kind() != now.kind() {
                self.modified.push(path);
                continue;
            }
            if !before.passes_for(now) {
                self.modified.push(path.clone());
            }
            if let (Some(before), Some(now)) = (before.entries(), now.entries()) {
                self.compare(before, now, &path);
            }
        }
        for (name, now) in local.iter().filter(|(name, _)| !base.contains_key(*name)) {
            self.add(now, &above.join(name));
        }
    }

    /// Add a new path, and for a directory everything below it.
    fn add(&mut self, node: &EtcNode, path: &Path) {
        self.added.push(path.to_owned());
        for (name, child) in node.entries().into_iter().flatten() {
            self.add(child, &path.join(name));
        }
    }
}
