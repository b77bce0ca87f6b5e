//! Inputs and result of the step computation.

use std::collections::{BTreeMap, BTreeSet};

use super::PlanStep;
use crate::core::config::managed_files::ManagedFiles;
use crate::core::values::names::ManagedPath;
use crate::core::values::profile::Profile;
use crate::core::values::tree::{FileEntry, ObservedPaths};

/// Path whose current node keeps the plan from being applied, since it is not managed and must not be
/// removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathObstruction {
    pub path: ManagedPath,
    /// Node that was found, node that is needed, and remedy.
    pub reason: String,
}

/// Entry of a managed path in the image's `/usr/etc`. Its `Debug` output leaves out the content.
#[derive(Clone, PartialEq, Eq)]
pub struct VendorEntry(pub FileEntry);

impl std::fmt::Debug for VendorEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Vendor(…)")
    }
}

/// Inputs of the step computation.
#[derive(Debug, Clone, Copy)]
pub struct StepInputs<'a> {
    /// Managed files of the current config in this tree.
    pub current: &'a ManagedFiles,
    /// Managed files of the desired config in this tree.
    pub desired: &'a ManagedFiles,
    /// Observed state of managed paths and of their parent directories.
    pub observed: &'a ObservedPaths,
    /// Paths below a directory that exists at the path of a desired file or link, by that directory. A directory
    /// with a file whose name no config can contain is left out.
    pub below: &'a BTreeMap<ManagedPath, Vec<ManagedPath>>,
    /// Managed paths that lead to the same place as another managed path, mapped to that one.
    pub aliases: &'a BTreeMap<ManagedPath, ManagedPath>,
    /// Entries of managed paths in the image's `/usr/etc`.
    pub vendor: &'a BTreeMap<ManagedPath, VendorEntry>,
    /// Symbolic links that enable units.
    pub links: &'a LinkChange,
    /// Pre-images, created directories and labels of earlier changes.
    pub prior: &'a PriorChanges,
    /// Profile, whose rules of deletion apply.
    pub profile: Profile,
}

/// State left by earlier changes, which later ones need to undo them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PriorChanges {
    /// Paths that have a stored pre-image.
    pub originals: BTreeSet<ManagedPath>,
    /// Directories created for managed paths below them.
    pub created_directories: BTreeSet<ManagedPath>,
    /// SELinux labels that the disk is compared with, by path, without the terminating NUL.
    pub labels: BTreeMap<ManagedPath, String>,
}

impl PriorChanges {
    /// Return the part about paths within `top`.
    #[must_use]
    pub fn within(&self, top: &str) -> Self {
        self.only(|path| path.is_within(top))
    }

    /// Return the part about paths outside `top`.
    #[must_use]
    pub fn outside(&self, top: &str) -> Self {
        self.only(|path| !path.is_within(top))
    }

    fn only(&self, is_meant: impl Fn(&ManagedPath) -> bool) -> Self {
        let mut only = self.clone();
        only.originals.retain(|path| is_meant(path));
        only.created_directories.retain(|path| is_meant(path));
        only.labels.retain(|path, _| is_meant(path));
        only
    }
}

/// Change of the enablement links below the unit directory, apart from links that a config lists by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkChange {
    /// Existing links, with their targets.
    pub before: BTreeMap<ManagedPath, String>,
    /// Desired links, with their targets.
    pub after: BTreeMap<ManagedPath, String>,
}

impl LinkChange {
    /// List the links to create or to point elsewhere.
    pub fn made(&self) -> impl Iterator<Item = (&ManagedPath, &String)> {
        self.after.iter().filter(|(path, target)| self.before.get(*path) != Some(target))
    }

    /// List the links to remove.
    pub fn removed(&self) -> impl Iterator<Item = &ManagedPath> {
        self.before.keys().filter(|path| !self.after.contains_key(*path))
    }
}

/// Result of the step computation: the steps in order, and data for the next record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlannedSteps {
    /// Steps that store pre-images; carried out before the record names them and before any other change.
    pub preserve: Vec<PlanStep>,
    pub steps: Vec<PlanStep>,
    /// Obstructed paths; a plan with obstructions cannot be applied.
    pub obstructions: Vec<PathObstruction>,
    /// Directories created for managed paths below them.
    pub created_directories: BTreeSet<ManagedPath>,
    /// Paths that have a stored pre-image.
    pub originals: BTreeSet<ManagedPath>,
}

impl PlannedSteps {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.preserve.is_empty() && self.steps.is_empty()
    }
}
