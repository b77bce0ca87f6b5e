//! What steps are computed from, and what comes of it.

use std::collections::{BTreeMap, BTreeSet};

use super::PlanStep;
use crate::core::config::managed_files::ManagedFiles;
use crate::core::values::names::ManagedPath;
use crate::core::values::profile::Profile;
use crate::core::values::tree::{FileEntry, ObservedPaths};

/// Something in the tree that is in the way, and that nobody asked us to remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathObstruction {
    /// The path.
    pub path: ManagedPath,
    /// What stands there and what is needed instead.
    pub reason: String,
}

/// A shipped version of a path: what stands below `/usr/etc`.
#[derive(Clone, PartialEq, Eq)]
pub struct VendorEntry(pub FileEntry);

impl std::fmt::Debug for VendorEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Vendor(…)")
    }
}

/// What the steps are computed from.
#[derive(Debug, Clone, Copy)]
pub struct StepInputs<'a> {
    /// What the last applied configuration wants here.
    pub current: &'a ManagedFiles,
    /// What the desired one wants here.
    pub desired: &'a ManagedFiles,
    /// What stands at their paths and at the directories above them.
    pub observed: &'a ObservedPaths,
    /// What lies below the directories that stand at a wanted file's path.
    pub below: &'a BTreeMap<ManagedPath, Vec<ManagedPath>>,
    /// Managed paths that are the same place as another one, mapped to that.
    pub aliases: &'a BTreeMap<ManagedPath, ManagedPath>,
    /// Shipped versions of managed paths.
    pub vendor: &'a BTreeMap<ManagedPath, VendorEntry>,
    /// The links that enable units.
    pub links: &'a LinkChange,
    /// What earlier changes left to be remembered.
    pub remembered: &'a PriorChanges,
    /// Whose table of deletions applies.
    pub profile: Profile,
}

/// What a change has to know of those before it, to take them back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PriorChanges {
    /// Paths of which a pre-image is kept.
    pub originals: BTreeSet<ManagedPath>,
    /// Directories that exist only for what is applied.
    pub created_directories: BTreeSet<ManagedPath>,
    /// The SELinux labels that were given, by path and without the NUL that ends them on disk.
    pub labels: BTreeMap<ManagedPath, String>,
}

impl PriorChanges {
    /// What of it is about paths within `top`.
    #[must_use]
    pub fn within(&self, top: &str) -> Self {
        self.only(|path| path.is_within(top))
    }

    /// What of it is about paths outside `top`.
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

/// The links below the unit directory that no configuration lists by path: as they are, and as
/// enablement wants them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkChange {
    /// Path and target of each link there is.
    pub before: BTreeMap<ManagedPath, String>,
    /// Path and target of each link there shall be.
    pub after: BTreeMap<ManagedPath, String>,
}

impl LinkChange {
    /// Links to make or to point elsewhere.
    pub fn made(&self) -> impl Iterator<Item = (&ManagedPath, &String)> {
        self.after.iter().filter(|(path, target)| self.before.get(*path) != Some(target))
    }

    /// Links to remove.
    pub fn removed(&self) -> impl Iterator<Item = &ManagedPath> {
        self.before.keys().filter(|path| !self.after.contains_key(*path))
    }
}

/// The steps in order, and what the next record must remember.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlannedSteps {
    /// What keeps pre-images, before the record names them and anything else changes.
    pub preserve: Vec<PlanStep>,
    /// The steps.
    pub steps: Vec<PlanStep>,
    /// What is in the way; a plan with obstructions cannot be applied.
    pub obstructions: Vec<PathObstruction>,
    /// Directories that exist only for what is applied.
    pub created_directories: BTreeSet<ManagedPath>,
    /// Paths of which a pre-image is kept.
    pub originals: BTreeSet<ManagedPath>,
}

impl PlannedSteps {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.preserve.is_empty() && self.steps.is_empty()
    }
}
