//! What was observed of a tree: everything that a plan for it is decided from.

use std::collections::{BTreeMap, BTreeSet};

use super::steps::VendorEntry;
use super::unit_texts::UnitTexts;
use crate::core::config::accounts::AccountTable;
use crate::core::config::managed_files::ManagedFiles;
use crate::core::enablement::{SystemdVersion, UnitName};
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::{FileAttributes, ObservedPaths};

/// A shadow file as it is. Not printable: it holds password hashes.
#[derive(Clone, PartialEq, Eq)]
pub struct ShadowFile {
    /// Its content.
    pub text: Vec<u8>,
    /// Mode and owner, which an edit keeps.
    pub attributes: FileAttributes,
}

impl std::fmt::Debug for ShadowFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shadow").field("attributes", &self.attributes).finish_non_exhaustive()
    }
}

/// Plain data about one tree, gathered before anything is decided.
#[derive(Debug, Clone)]
pub struct TreeFacts {
    /// Users and groups.
    pub accounts: AccountTable,
    /// The shadow file, where there is one.
    pub shadow: Option<ShadowFile>,
    /// What the current configuration manages here.
    pub current: ManagedFiles,
    /// What is managed here: what the current configuration wants, and outside `/etc` what is
    /// active, which may be another generation's.
    pub managed: ManagedFiles,
    /// What the desired configuration manages here.
    pub desired: ManagedFiles,
    /// What the desired configuration wants outside `/etc`, be that within reach or not.
    pub outside: ManagedFiles,
    /// What stands at managed paths and at the directories above them.
    pub observed: ObservedPaths,
    /// What lies below directories that stand at a wanted leaf's path.
    pub below: BTreeMap<ManagedPath, Vec<ManagedPath>>,
    /// Managed paths that are the same place as another one, mapped to that.
    pub aliases: BTreeMap<ManagedPath, ManagedPath>,
    /// Shipped versions of managed paths.
    pub vendor: BTreeMap<ManagedPath, VendorEntry>,
    /// Unit files and presets, as far as they have been asked for.
    pub unit_texts: UnitTexts,
    /// The units that were looked for, found or not.
    pub looked_up_units: BTreeSet<UnitName>,
    /// The files outside the units' search path that were looked for, found or not.
    pub looked_up_files: BTreeSet<String>,
    /// The version of systemd in the tree.
    pub systemd: SystemdVersion,
    /// Links below the unit directory, by path.
    pub links: BTreeMap<ManagedPath, String>,
}
