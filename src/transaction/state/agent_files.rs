//! The agent's own files, as steps of a change.

use std::collections::BTreeSet;

use crate::core::plan::steps::PlanStep;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::ORIGINALS;
use crate::core::values::tree::{ContentDigest, FileAttributes, PathState};
use crate::host::{HostError, Root};

/// Below them, nothing is anybody else's to read.
const PRIVATE: [&str; 2] = ["/var/lib/flameholder", ORIGINALS];

/// Steps that write files of ours, with the directories that they need.
#[derive(Debug)]
pub(crate) struct AgentFiles<'a> {
    root: &'a Root,
    /// Directories that a step makes.
    made: BTreeSet<ManagedPath>,
    /// The steps so far.
    pub(crate) steps: Vec<PlanStep>,
}

impl<'a> AgentFiles<'a> {
    /// After `steps`, on `root`.
    pub(crate) fn after(root: &'a Root, steps: Vec<PlanStep>) -> Self {
        let mut files = Self { root, made: BTreeSet::new(), steps: Vec::new() };
        files.extend(steps);
        files
    }

    /// Takes other steps in between.
    pub(crate) fn extend(&mut self, steps: impl IntoIterator<Item = PlanStep>) {
        for step in steps {
            if let PlanStep::MakeDirectory { path, .. } = &step {
                self.made.insert(path.clone());
            }
            self.steps.push(step);
        }
    }

    /// Writes a file unless it is there already, exactly.
    pub(crate) fn write(&mut self, path: ManagedPath, contents: Vec<u8>, mode: u32) -> Result<(), HostError> {
        let attributes = FileAttributes { mode, uid: 0, gid: 0 };
        if is_written(&self.root.node(&path)?, &contents, attributes) {
            return Ok(());
        }
        self.make_parents(&path)?;
        self.steps.push(PlanStep::Write { path, contents, attributes });
        Ok(())
    }

    /// Makes a link unless it is there already.
    pub(crate) fn link(&mut self, path: ManagedPath, target: &str) -> Result<(), HostError> {
        if self.root.link_target(&path)?.as_deref() == Some(target) {
            return Ok(());
        }
        self.make_parents(&path)?;
        self.steps.push(PlanStep::Symlink { path, target: target.to_owned(), owner: (0, 0) });
        Ok(())
    }

    /// Makes the directories above `path` that are missing.
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
