//! Paths that an activation leaves out, because they cannot be put in place. The others are not held up by them.

use std::collections::BTreeMap;

use crate::core::config::managed_files::ManagedFiles;
use crate::core::plan::steps::PriorChanges;
use crate::core::state::objects::ActiveManifest;
use crate::core::values::names::ManagedPath;
use crate::transaction::TransactionError;
use crate::transaction::engine::apply::{ApplyError, StepError};

/// Most rounds of an activation. Each leaves out at least one path; a file system that refuses everything must not
/// take as many rounds as there are paths.
pub(super) const MAX_ROUNDS: usize = 64;

/// Managed paths that are left out, each with the reason; without one if it is no problem, or reported otherwise.
#[derive(Debug, Clone, Default)]
pub(super) struct SkippedPaths(BTreeMap<ManagedPath, Option<String>>);

impl SkippedPaths {
    /// Leave out the paths of either set that `error` is about; false if it is about none of them.
    pub(super) fn insert_failed(&mut self, error: &TransactionError, managed: [&ManagedFiles; 2]) -> bool {
        failed_path(error).is_some_and(|failed| self.insert(&failed, &error.chain(), managed))
    }

    /// Leave out the paths of either set at, above or below `failed`; false if there is none left.
    pub(super) fn insert(&mut self, failed: &ManagedPath, reason: &str, managed: [&ManagedFiles; 2]) -> bool {
        let before = self.0.len();
        let paths: Vec<ManagedPath> = managed
            .into_iter()
            .flat_map(|managed| managed.entries.keys())
            .filter(|path| is_concerned(path, failed))
            .cloned()
            .collect();
        self.0.extend(paths.into_iter().map(|path| (path, Some(reason.to_owned()))));
        self.0.len() > before
    }

    /// Leave out a path without a reason of its own.
    pub(super) fn insert_awaited(&mut self, path: ManagedPath) {
        self.0.insert(path, None);
    }

    /// Return `managed` without the paths that are left out, which are neither written nor removed.
    pub(super) fn without(&self, managed: &ManagedFiles) -> ManagedFiles {
        let mut managed = managed.clone();
        managed.entries.retain(|path, _| !self.0.contains_key(path));
        managed
    }

    /// Return `prior` without the changes at the paths that are left out and above them: they are undone later.
    pub(super) fn without_prior(&self, prior: &PriorChanges) -> PriorChanges {
        let mut prior = prior.clone();
        prior.originals.retain(|path| !self.0.contains_key(path));
        prior.created_directories.retain(|directory| !self.is_above(directory));
        prior
    }

    /// Keep the pre-images and created directories of the paths that are left out in the new manifest.
    pub(super) fn retain_prior(&self, active: &mut ActiveManifest, prior: &PriorChanges) {
        active.originals.extend(prior.originals.iter().filter(|path| self.0.contains_key(*path)).cloned());
        active
            .created_directories
            .extend(prior.created_directories.iter().filter(|directory| self.is_above(directory)).cloned());
        for paths in [&mut active.originals, &mut active.created_directories] {
            paths.sort();
            paths.dedup();
        }
    }

    /// Return the managed files of `active` that are left out and not `desired` any more: they are still to be removed.
    pub(super) fn remaining(&self, active: &ManagedFiles, desired: &ManagedFiles) -> ManagedFiles {
        let mut remaining = active.clone();
        remaining.entries.retain(|path, _| self.0.contains_key(path) && !desired.entries.contains_key(path));
        remaining
    }

    /// List the paths with their reasons, one per line.
    pub(super) fn reasons(self) -> impl Iterator<Item = String> {
        // Most reasons name the path themselves.
        self.0.into_iter().filter_map(|(path, reason)| {
            let reason = reason?;
            Some(if reason.contains(path.as_str()) { reason } else { format!("{path}: {reason}") })
        })
    }

    fn is_above(&self, directory: &ManagedPath) -> bool {
        self.0.keys().any(|path| path.is_within(directory.as_str()))
    }
}

/// Return true if `path` is at, above or below the path that failed.
pub(super) fn is_concerned(path: &ManagedPath, failed: &ManagedPath) -> bool {
    path.is_within(failed.as_str()) || failed.is_within(path.as_str())
}

/// Return the path that a failed activation is about.
pub(super) fn failed_path(error: &TransactionError) -> Option<ManagedPath> {
    match error {
        TransactionError::Apply(ApplyError::Undone(StepError::Path(failed))) => Some(failed.path.clone()),
        TransactionError::Host(error) => ManagedPath::parse(error.path()).ok(),
        _ => None,
    }
}
