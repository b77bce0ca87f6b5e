//! The agent's own files and the directories that they need, as steps of a change.

use std::collections::BTreeSet;

use crate::core::plan::steps::PlanStep;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::ORIGINALS;
use crate::core::values::tree::{ContentDigest, FileAttributes, PathState};
use crate::host::{HostError, Root};

/// Directories that only root may read: they can contain secrets.
const PRIVATE: [&str; 2] = ["/var/lib/flameholder", ORIGINALS];

/// Steps that write the agent's files.
#[derive(Debug)]
pub(crate) struct AgentFiles<'a> {
    root: &'a Root,
    /// Directories that earlier steps create.
    made: BTreeSet<ManagedPath>,
    pub(crate) steps: Vec<PlanStep>,
}

impl<'a> AgentFiles<'a> {
    /// Start after the given steps, for the tree at `root`.
    pub(crate) fn after(root: &'a Root, steps: Vec<PlanStep>) -> Self {
        let mut files = Self { root, made: BTreeSet::new(), steps: Vec::new() };
        files.extend(steps);
        files
    }

    /// Append other steps.
    pub(crate) fn extend(&mut self, steps: impl IntoIterator<Item = PlanStep>) {
        for step in steps {
            if let PlanStep::MakeDirectory { path, .. } = &step {
                self.made.insert(path.clone());
            }
            self.steps.push(step);
        }
    }

    /// Add a step that writes a file, unless content and attributes are already equal.
    pub(crate) fn write(&mut self, path: ManagedPath, contents: Vec<u8>, mode: u32) -> Result<(), HostError> {
        let attributes = FileAttributes { mode, uid: 0, gid: 0 };
        if is_written(&self.root.path_state(&path)?, &contents, attributes) {
            return Ok(());
        }
        self.make_parents(&path)?;
        self.keep_directories(&path);
        self.steps.push(PlanStep::Write { path, contents, attributes });
        Ok(())
    }

    /// Add a step that creates a symbolic link, unless it already points to `target`.
    pub(crate) fn link(&mut self, path: ManagedPath, target: &str) -> Result<(), HostError> {
        if self.root.link_target(&path)?.as_deref() == Some(target) {
            return Ok(());
        }
        self.make_parents(&path)?;
        self.keep_directories(&path);
        self.steps.push(PlanStep::Symlink { path, target: target.to_owned(), owner: (0, 0) });
        Ok(())
    }

    /// Drop the steps that remove a directory of `path`: a config that created it may no longer need it.
    fn keep_directories(&mut self, path: &ManagedPath) {
        self.steps.retain(|step| {
            !matches!(step, PlanStep::RemoveDirectory { path: directory } if path.is_within(directory.as_str()))
        });
    }

    /// Add steps that create the missing parent directories of `path`.
    pub(crate) fn make_parents(&mut self, path: &ManagedPath) -> Result<(), HostError> {
        for directory in path.ancestors().collect::<Vec<_>>().into_iter().rev() {
            if !self.root.exists(&directory)? && self.made.insert(directory.clone()) {
                let is_private = PRIVATE.iter().any(|private| directory.is_within(private));
                let attributes =
                    FileAttributes { mode: if is_private { 0o700 } else { 0o755 }, uid: 0, gid: 0 };
                self.steps.push(PlanStep::MakeDirectory { path: directory, attributes });
            }
        }
        Ok(())
    }
}

fn is_written(found: &PathState, contents: &[u8], attributes: FileAttributes) -> bool {
    match found {
        PathState::File { attributes: mode, digest, .. } => {
            *mode == attributes && *digest == ContentDigest::of(contents)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test reports by panicking")]

    use super::*;

    #[test]
    fn directory_of_a_written_file_is_not_removed() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("etc/app/own")).unwrap();
        let root = Root::open(directory.path()).unwrap();
        let removal = |path| PlanStep::RemoveDirectory { path: ManagedPath::constant(path) };
        let mut files =
            AgentFiles::after(&root, ["/etc/app/own", "/etc/app", "/etc/a"].map(removal).to_vec());
        files.write(ManagedPath::constant("/etc/app/mark"), b"mark".to_vec(), 0o644).unwrap();
        let paths: Vec<&str> = files.steps.iter().map(|step| step.path().as_str()).collect();
        assert_eq!(paths, ["/etc/app/own", "/etc/a", "/etc/app/mark"]);
    }
}
