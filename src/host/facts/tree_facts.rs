//! Collection of the facts about a tree that a plan is computed from. Read-only.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::config::accounts::AccountTable;
use crate::core::config::host_config::HostConfig;
use crate::core::config::managed_files::{self, AppendBase, ExistingFiles, ManagedFiles, UnknownOwner};
use crate::core::config::settings::DriftPolicy;
use crate::core::enablement::UnreadFiles;
use crate::core::plan::drift::local_merge::{LocalContents, LocalMerges, MOST_BYTES, MergePolicies};
use crate::core::plan::facts::{ShadowFile, TreeFacts};
use crate::core::plan::steps::{PriorChanges, VendorEntry};
use crate::core::plan::unit_links;
use crate::core::state::record::GenerationRecord;
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::{KUBECONFIG, SHADOW};
use crate::core::values::profile::Profile;
use crate::core::values::refusal::RefusalList;
use crate::core::values::tree::{DriftKind, FileAttributes, FileEntry, PathState};
use crate::host::facts::accounts::{ACCOUNT_FILE_BYTES, load_accounts};
use crate::host::facts::unit_texts::{load_linked, load_links, load_presets, load_unit, load_version};
use crate::host::fs::error::HostError;
use crate::host::fs::root::Root;
use crate::host::fs::tree_observation;

/// Part of a tree that the agent may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeScope {
    Everything,
    /// `/etc`, the part owned by a deployment. Files elsewhere are activated when that deployment boots.
    Etc,
}

/// Failure to collect the facts.
#[derive(Debug, thiserror::Error)]
pub enum FactsError {
    #[error(transparent)]
    Host(#[from] HostError),
    /// The config does not fit the tree.
    #[error(transparent)]
    Refused(#[from] RefusalList),
}

/// Where local changes are found, and by which policies they are merged.
#[derive(Debug, Clone, Copy)]
pub struct LocalMerging<'a> {
    pub policies: &'a MergePolicies,
    /// Tree in which the current config was applied: with the files that it appended to.
    pub applied_to: &'a Root,
}

impl<'a> LocalMerging<'a> {
    /// Combine both; `None` without policies.
    #[must_use]
    pub fn by(policies: Option<&'a MergePolicies>, applied_to: &'a Root) -> Option<Self> {
        policies.map(|policies| Self { policies, applied_to })
    }
}

/// Parameters of [`gather`].
#[derive(Debug, Clone, Copy)]
pub struct FactsRequest<'a> {
    /// Current config: applied last.
    pub current: Option<&'a HostConfig>,
    /// Desired config. The same as `current` for verification.
    pub desired: &'a HostConfig,
    /// Managed files outside `/etc`, if they differ from those in `current`.
    pub active: Option<&'a ManagedFiles>,
    /// Changes by earlier generations that a later one must undo.
    pub prior: &'a PriorChanges,
    /// Profile under which `current` was applied. An owner named in it may have been removed from the tree
    /// since.
    pub applied_by: Profile,
    /// Profile of the desired config.
    pub profile: Profile,
    /// Part of the tree to inspect.
    pub scope: TreeScope,
    /// How local changes are merged into the desired config; `None` to compare with the config as it is.
    pub merging: Option<LocalMerging<'a>>,
}

/// Collect the facts about all paths that either config manages.
pub fn gather(root: &Root, subject: FactsRequest<'_>) -> Result<TreeFacts, FactsError> {
    let accounts = load_accounts(root)?;
    let manage =
        |config: &HostConfig, profile: Profile, unknown: UnknownOwner| -> Result<ManagedFiles, FactsError> {
            let existing = load_existing(root, config, &accounts, &subject)?;
            Ok(ManagedFiles::of(config, &accounts, &existing, profile, unknown)?)
        };
    let mut current = match subject.current {
        Some(config) => manage(config, subject.applied_by, UnknownOwner::Drifts)?,
        None => ManagedFiles::default(),
    };
    let is_same = subject.current == Some(subject.desired);
    let unknown = if is_same { UnknownOwner::Drifts } else { UnknownOwner::Refused };
    let mut desired = manage(subject.desired, subject.profile, unknown)?;
    let outside = desired.outside("/etc");
    if subject.scope == TreeScope::Etc {
        for managed in [&mut current, &mut desired] {
            managed.keep_within("/etc", "outside /etc; written when this generation is activated");
        }
    }
    let managed = match subject.active {
        Some(active) if subject.scope == TreeScope::Everything => current.with_outside("/etc", active),
        _ => current.clone(),
    };
    let (links, others) = load_links(root)?;
    let mut facts = TreeFacts {
        accounts,
        shadow: load_shadow(root)?,
        kubeconfig: load_kubeconfig(root)?,
        current,
        managed,
        desired,
        merges: LocalMerges::default(),
        outside,
        observed: others,
        below: BTreeMap::new(),
        aliases: BTreeMap::new(),
        vendor: BTreeMap::new(),
        unit_texts: BTreeMap::new(),
        looked_up_units: BTreeSet::new(),
        looked_up_files: BTreeSet::new(),
        systemd: load_version(root)?,
        links,
    };
    let seen = tree_observation::look(root, [&facts.current, &facts.managed], &facts.desired, subject.prior)?;
    facts.observed.extend(seen.observed);
    (facts.below, facts.aliases) = (seen.below, seen.aliases);
    if let (Some(merging), Some(config)) = (subject.merging, subject.current) {
        merge_local_changes(root, &mut facts, config, merging, subject)?;
    }
    facts.vendor = load_vendor(root, &facts)?;
    load_presets(root, &mut facts.unit_texts)?;
    look_up_units(root, &mut facts, subject)?;
    Ok(facts)
}

/// Merge the local changes of files with the drift policy `merge` into the desired files of `facts`.
fn merge_local_changes(
    root: &Root,
    facts: &mut TreeFacts,
    config: &HostConfig,
    merging: LocalMerging<'_>,
    subject: FactsRequest<'_>,
) -> Result<(), FactsError> {
    // An image can ship another version of a file that the config appended to, so that it looks changed.
    let existing = load_existing(merging.applied_to, config, &facts.accounts, &subject)?;
    let (profile, unknown) = (subject.applied_by, UnknownOwner::Drifts);
    let applied = ManagedFiles::of(config, &facts.accounts, &existing, profile, unknown)?;
    let local = load_local_contents(root, facts, &applied, merging.policies, subject.profile)?;
    let after = &merging.policies.after;
    facts.merges = LocalMerges::merge_into(&mut facts.desired, &applied, &local, after);
    Ok(())
}

/// Load the contents of changed files with the drift policy `merge`.
fn load_local_contents(
    root: &Root,
    facts: &TreeFacts,
    applied: &ManagedFiles,
    policies: &MergePolicies,
    profile: Profile,
) -> Result<LocalContents, HostError> {
    let mut local = LocalContents::default();
    for (path, entry) in &applied.entries {
        let node = facts.observed.get(path).unwrap_or(&PathState::Absent);
        let stays = profile.never_deletes(path) && !facts.desired.entries.contains_key(path);
        if policies.before.of(path) == DriftPolicy::Merge
            // Trust material of the cluster is newer than the config, and no local change.
            && !profile.keeps_local_content(path)
            && !stays
            && entry.drift(node, &facts.observed) == Some(DriftKind::Content)
        {
            match root.read(path, MOST_BYTES) {
                Ok(Some(bytes)) => drop(local.0.insert(path.clone(), Some(bytes))),
                Ok(None) => {}
                Err(HostError::TooLarge { .. }) => drop(local.0.insert(path.clone(), None)),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(local)
}

/// Compute the managed files outside `/etc` of the current config in the tree at `root`.
pub fn managed_outside_etc(
    root: &Root,
    current: &HostConfig,
    prior: &PriorChanges,
    profile: Profile,
) -> Result<ManagedFiles, FactsError> {
    let request = FactsRequest {
        current: Some(current),
        desired: current,
        active: None,
        prior,
        applied_by: profile,
        profile,
        scope: TreeScope::Everything,
        merging: None,
    };
    let accounts = load_accounts(root)?;
    let existing = load_existing(root, current, &accounts, &request)?;
    let managed = ManagedFiles::of(current, &accounts, &existing, profile, UnknownOwner::Drifts)?;
    Ok(managed.outside("/etc"))
}

/// Read unit files until enablement of all units is determined: a unit may refer to others (`Also=`).
fn look_up_units(root: &Root, facts: &mut TreeFacts, subject: FactsRequest<'_>) -> Result<(), HostError> {
    loop {
        let unread = unit_links::unread_files(facts, subject.current, subject.desired);
        if unread == UnreadFiles::default() {
            return Ok(());
        }
        for name in unread.units {
            // An instance also has its template's drop-ins.
            for owner in [Some(name.clone()), name.template()].into_iter().flatten() {
                load_unit(root, owner.as_str(), &mut facts.unit_texts)?;
            }
            facts.looked_up_units.insert(name);
        }
        for path in unread.files {
            load_linked(root, &path, &mut facts.unit_texts)?;
            facts.looked_up_files.insert(path);
        }
    }
}

/// Load the versions in `/usr/etc` of paths that become managed or unmanaged.
fn load_vendor(root: &Root, facts: &TreeFacts) -> Result<BTreeMap<ManagedPath, VendorEntry>, HostError> {
    let (current, desired) = (&facts.current.entries, &facts.desired.entries);
    let joining = desired.keys().filter(|path| !current.contains_key(*path));
    let leaving = current.keys().filter(|path| !desired.contains_key(*path));
    let mut vendor = BTreeMap::new();
    for path in joining.chain(leaving) {
        let Some(shipped) = path.as_str().strip_prefix("/etc/") else { continue };
        let Ok(shipped) = ManagedPath::parse(&format!("/usr/etc/{shipped}")) else { continue };
        let entry = match root.path_state(&shipped)? {
            PathState::Symlink { target, owner, .. } => FileEntry::Symlink { target, owner },
            PathState::File { attributes, .. } => {
                let contents = root.read(&shipped, limits::INFLATED_BYTES)?.unwrap_or_default();
                FileEntry::File { contents, attributes }
            }
            _ => continue,
        };
        vendor.insert(path.clone(), VendorEntry(entry));
    }
    Ok(vendor)
}

fn load_shadow(root: &Root) -> Result<Option<ShadowFile>, HostError> {
    let path = ManagedPath::constant(SHADOW);
    let PathState::File { .. } = root.path_state(&path)? else {
        return Ok(None);
    };
    let text = root.read(&path, ACCOUNT_FILE_BYTES)?;
    Ok(text.map(|text| ShadowFile { text }))
}

fn load_kubeconfig(root: &Root) -> Result<Option<FileAttributes>, HostError> {
    Ok(match root.path_state(&ManagedPath::constant(KUBECONFIG))? {
        PathState::File { attributes, .. } => Some(attributes),
        _ => None,
    })
}

/// Load the authorized keys where they may be spelled otherwise, and the base of each file with `append`: the pre-image if the path is
/// managed already, else the file in `/usr/etc`, else the existing file.
fn load_existing(
    root: &Root,
    config: &HostConfig,
    accounts: &AccountTable,
    subject: &FactsRequest<'_>,
) -> Result<ExistingFiles, HostError> {
    let keys = managed_files::respelled_keys(config, accounts);
    // The file is the user's own, who can make it longer than any config.
    let keys = keys.and_then(|path| root.read(&path, limits::DOCUMENT_BYTES).ok().flatten());
    let mut existing = ExistingFiles { keys, ..ExistingFiles::default() };
    for (path, _) in config.files.iter().filter(|(_, file)| !file.append.is_empty()) {
        let managed = match subject.active {
            Some(active) if !path.is_within("/etc") => active.entries.contains_key(path),
            _ => subject.current.is_some_and(|current| current.files.contains_key(path)),
        };
        let kept = subject.prior.originals.contains(path);
        let shipped = path.as_str().strip_prefix("/etc/").map(|below| format!("/usr/etc/{below}"));
        let candidates = [
            kept.then(|| GenerationRecord::original_of(path)),
            (!managed).then(|| path.clone()),
            shipped.and_then(|shipped| ManagedPath::parse(&shipped).ok()),
        ];
        for candidate in candidates.into_iter().flatten() {
            let PathState::File { attributes, .. } = root.path_state(&candidate)? else { continue };
            if let Some(contents) = root.read(&candidate, limits::INFLATED_BYTES)? {
                existing.append_bases.insert(path.clone(), AppendBase { contents, attributes });
                break;
            }
        }
    }
    Ok(existing)
}
