//! Gathers the facts about a tree that a plan for it is decided from. Reads only.

use std::collections::{BTreeMap, BTreeSet};

use super::accounts::{ACCOUNT_FILE_BYTES, load_accounts};
use super::error::HostError;
use super::root::Root;
use super::unit_texts::{load_linked, load_links, load_presets, load_unit, load_version};
use crate::core::enablement::Unread;
use crate::core::facts::{Facts, SHADOW, Shadow};
use crate::core::generation::{ORIGINALS, ORIGINALS_OUTSIDE_ETC, Record};
use crate::core::host_config::{HostConfig, UNIT_DIRECTORY};
use crate::core::limits;
use crate::core::managed::{Bases, Managed, Unknown};
use crate::core::names::{ManagedPath, below};
use crate::core::profile::Profile;
use crate::core::refusal::Refusals;
use crate::core::steps::Vendor;
use crate::core::tree::{Entry, Node, Observed};
use crate::core::unit_links;

/// How much of a tree the agent may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// All of it.
    Everything,
    /// What a deployment owns: `/etc`. The rest is activated when that deployment boots.
    Etc,
}

/// Why facts cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum FactsError {
    /// The tree cannot be read.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The configuration does not fit the tree.
    #[error(transparent)]
    Refused(#[from] Refusals),
}

/// What to gather facts for.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The configuration that was applied last.
    pub current: Option<&'a HostConfig>,
    /// The configuration to apply, or the same to verify.
    pub desired: &'a HostConfig,
    /// The last record.
    pub record: Option<&'a Record>,
    /// Whose verdicts apply.
    pub profile: Profile,
    /// How much of the tree is looked at.
    pub reach: Reach,
}

/// Gathers everything about the paths that either configuration manages.
pub fn gather(root: &Root, subject: Subject<'_>) -> Result<Facts, FactsError> {
    let accounts = load_accounts(root)?;
    let manage = |config: &HostConfig, profile: Profile, unknown: Unknown| -> Result<Managed, FactsError> {
        let bases = load_bases(root, config, &subject)?;
        let mut managed = Managed::of(config, &accounts, &bases, profile, unknown)?;
        if subject.reach == Reach::Etc {
            managed.keep_within("/etc", "outside /etc, which alone belongs to a deployment");
        }
        Ok(managed)
    };
    // What was applied was applied by its own profile, and a name may have left the tree since.
    let applied_by = subject.record.map_or(subject.profile, |record| record.profile);
    let current = match subject.current {
        Some(config) => manage(config, applied_by, Unknown::Deviates)?,
        None => Managed::default(),
    };
    let is_same = subject.current == Some(subject.desired);
    let unknown = if is_same { Unknown::Deviates } else { Unknown::Refused };
    let desired = manage(subject.desired, subject.profile, unknown)?;
    let (links, others) = load_links(root)?;
    let mut facts = Facts {
        accounts,
        shadow: load_shadow(root)?,
        current,
        desired,
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
    observe(root, &mut facts, subject.record)?;
    facts.vendor = load_vendor(root, &facts)?;
    load_presets(root, &mut facts.unit_texts)?;
    look_up_units(root, &mut facts, subject)?;
    Ok(facts)
}

/// Reads unit files until enablement can be told: a unit may bring others along.
fn look_up_units(root: &Root, facts: &mut Facts, subject: Subject<'_>) -> Result<(), HostError> {
    loop {
        let unread = unit_links::unread(facts, subject.current, subject.desired);
        if unread == Unread::default() {
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

fn observe(root: &Root, facts: &mut Facts, record: Option<&Record>) -> Result<(), HostError> {
    let mut paths: BTreeSet<ManagedPath> = BTreeSet::new();
    let originals = record.into_iter().flat_map(|record| &record.originals).map(Record::original_of);
    paths.extend(originals);
    paths.extend(record.into_iter().flat_map(|record| record.originals.iter().cloned()));
    paths.extend(record.into_iter().flat_map(|record| record.labels.keys().cloned()));
    for constant in [ORIGINALS, ORIGINALS_OUTSIDE_ETC, UNIT_DIRECTORY] {
        let directory = ManagedPath::constant(constant);
        paths.extend(directory.ancestors());
        paths.insert(directory);
    }
    for (path, entry) in facts.current.entries.iter().chain(&facts.desired.entries) {
        paths.insert(path.clone());
        // Most files share their directories.
        for above in path.ancestors() {
            if !paths.insert(above) {
                break;
            }
        }
        if let Entry::HardLink { target } = entry {
            paths.insert(target.clone());
        }
    }
    let mut observed: Observed = BTreeMap::new();
    for path in paths {
        let node = root.node(&path)?;
        observed.insert(path, node);
    }
    let wanted = facts.desired.entries.iter().filter(|(_, entry)| !matches!(entry, Entry::Directory { .. }));
    let given_back = record.into_iter().flat_map(|record| &record.originals);
    for path in wanted.map(|(path, _)| path).chain(given_back) {
        if matches!(observed.get(path), Some(Node::Directory { .. })) {
            let below = root.below(path)?;
            for path in &below {
                observed.insert(path.clone(), root.node(path)?);
            }
            facts.below.insert(path.clone(), below);
        }
    }
    // A link that leads to no directory has nothing below it.
    let is_above = |path: &ManagedPath| below(&observed, path.as_str()).next().is_some();
    let dangling: Vec<ManagedPath> = observed
        .iter()
        .filter(|(path, node)| {
            matches!(node, Node::Symlink { .. }) && is_above(path) && !root.leads_to_directory(path)
        })
        .map(|(path, _)| path.clone())
        .collect();
    for link in dangling {
        let hidden: Vec<ManagedPath> =
            below(&observed, link.as_str()).map(|(path, _)| path.clone()).collect();
        observed.extend(hidden.into_iter().map(|path| (path, Node::Unreachable)));
    }
    facts.aliases = aliases(root, facts, &observed)?;
    facts.observed.extend(observed);
    Ok(())
}

/// Managed paths that are one place under two names, because a directory above one of them is a
/// link. Each is mapped to the name that comes first.
fn aliases(
    root: &Root,
    facts: &Facts,
    observed: &Observed,
) -> Result<BTreeMap<ManagedPath, ManagedPath>, HostError> {
    let (mut places, mut aliases) = (BTreeMap::new(), BTreeMap::new());
    let managed: BTreeSet<&ManagedPath> =
        facts.current.entries.keys().chain(facts.desired.entries.keys()).collect();
    for path in managed {
        let reachable = observed.get(path) != Some(&Node::Unreachable);
        let Some(place) = (if reachable { root.place(path)? } else { None }) else { continue };
        match places.get(&place) {
            None => drop(places.insert(place, path.clone())),
            Some(first) => drop(aliases.insert(path.clone(), first.clone())),
        }
    }
    Ok(aliases)
}

/// The shipped versions of paths that come under management or leave it.
fn load_vendor(root: &Root, facts: &Facts) -> Result<BTreeMap<ManagedPath, Vendor>, HostError> {
    let (current, desired) = (&facts.current.entries, &facts.desired.entries);
    let joining = desired.keys().filter(|path| !current.contains_key(*path));
    let leaving = current.keys().filter(|path| !desired.contains_key(*path));
    let mut vendor = BTreeMap::new();
    for path in joining.chain(leaving) {
        let Some(shipped) = path.as_str().strip_prefix("/etc/") else { continue };
        let Ok(shipped) = ManagedPath::parse(&format!("/usr/etc/{shipped}")) else { continue };
        let entry = match root.node(&shipped)? {
            Node::Symlink { target, owner, .. } => Entry::Symlink { target, owner },
            Node::File { attributes, .. } => {
                let contents = root.read(&shipped, limits::INFLATED_BYTES)?.unwrap_or_default();
                Entry::File { contents, attributes }
            }
            _ => continue,
        };
        vendor.insert(path.clone(), Vendor(entry));
    }
    Ok(vendor)
}

fn load_shadow(root: &Root) -> Result<Option<Shadow>, HostError> {
    let path = ManagedPath::constant(SHADOW);
    let Node::File { attributes, .. } = root.node(&path)? else {
        return Ok(None);
    };
    let text = root.read(&path, ACCOUNT_FILE_BYTES)?;
    Ok(text.map(|text| Shadow { text, attributes }))
}

/// What the files that only append extend: the pre-image of a path that is managed already, else
/// what is shipped, else what stands there.
fn load_bases(root: &Root, config: &HostConfig, subject: &Subject<'_>) -> Result<Bases, HostError> {
    let mut bases = Bases::new();
    for (path, _) in config.files.iter().filter(|(_, file)| !file.append.is_empty()) {
        let managed = subject.current.is_some_and(|current| current.files.contains_key(path));
        let kept = subject.record.is_some_and(|record| record.originals.contains(path));
        let shipped = path.as_str().strip_prefix("/etc/").map(|below| format!("/usr/etc/{below}"));
        let candidates = [
            kept.then(|| Record::original_of(path)),
            (!managed).then(|| path.clone()),
            shipped.and_then(|shipped| ManagedPath::parse(&shipped).ok()),
        ];
        for candidate in candidates.into_iter().flatten() {
            if let Some(bytes) = root.read(&candidate, limits::INFLATED_BYTES)? {
                bases.insert(path.clone(), bytes);
                break;
            }
        }
    }
    Ok(bases)
}
