//! Facts about a tree: the complete input from which a plan for it is decided.

use std::collections::{BTreeMap, BTreeSet};

use super::drift::local_merge::LocalMerges;
use super::steps::VendorEntry;
use super::unit_texts::UnitTexts;
use crate::core::config::accounts::AccountTable;
use crate::core::config::managed_files::ManagedFiles;
use crate::core::enablement::{SystemdVersion, UnitName};
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::{FileAttributes, ObservedPaths};

/// Content of a shadow file. Its `Debug` output leaves out the password hashes.
#[derive(Clone, PartialEq, Eq)]
pub struct ShadowFile {
    pub text: Vec<u8>,
}

impl std::fmt::Debug for ShadowFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShadowFile").finish_non_exhaustive()
    }
}

/// Facts about one tree, gathered by the caller before planning.
#[derive(Debug, Clone)]
pub struct TreeFacts {
    /// Users and groups of the tree.
    pub accounts: AccountTable,
    /// Shadow file; `None` where the tree has none.
    pub shadow: Option<ShadowFile>,
    /// Mode and owner of the kubelet's bootstrap kubeconfig; `None` where it is no file.
    pub kubeconfig: Option<FileAttributes>,
    /// Managed files of the current config.
    pub current: ManagedFiles,
    /// Files that are managed now: those of the current config below `/etc`, and those of the active
    /// generation outside it, which may be another one.
    pub managed: ManagedFiles,
    /// Managed files of the desired config.
    pub desired: ManagedFiles,
    /// Local changes that [`TreeFacts::desired`] contains, and those that contradict it.
    pub merges: LocalMerges,
    /// Managed files of the desired config outside `/etc`, including those that this plan cannot reach.
    pub outside: ManagedFiles,
    /// Observed state of managed paths and of their parent directories.
    pub observed: ObservedPaths,
    /// Paths below a directory that exists at the path of a desired file or link, by that directory.
    pub below: BTreeMap<ManagedPath, Vec<ManagedPath>>,
    /// Managed paths that lead to the same place as another managed path, mapped to that one.
    pub aliases: BTreeMap<ManagedPath, ManagedPath>,
    /// Entries of managed paths in the image's `/usr/etc`.
    pub vendor: BTreeMap<ManagedPath, VendorEntry>,
    /// Unit files and presets, as far as planning asked for them.
    pub unit_texts: UnitTexts,
    /// Units that were looked up, found or not.
    pub looked_up_units: BTreeSet<UnitName>,
    /// Files outside the unit search path that were looked up, found or not.
    pub looked_up_files: BTreeSet<String>,
    pub systemd: SystemdVersion,
    /// Symbolic links below the unit directory, with their targets.
    pub links: BTreeMap<ManagedPath, String>,
}
