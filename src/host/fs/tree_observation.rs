//! Looks at the paths that are managed, and at what lies above and below them. Reads only.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::config::host_config::UNIT_DIRECTORY;
use crate::core::config::managed_files::ManagedFiles;
use crate::core::plan::steps::PriorChanges;
use crate::core::state::record::GenerationRecord;
use crate::core::values::names::{ManagedPath, below};
use crate::core::values::paths::{ORIGINALS, ORIGINALS_OUTSIDE_ETC};
use crate::core::values::tree::{FileEntry, ObservedPaths, PathState};
use crate::host::fs::error::HostError;
use crate::host::fs::root::Root;

/// What was seen.
#[derive(Debug, Clone, Default)]
pub struct TreeObservation {
    /// What stands at managed paths and at the directories above them.
    pub observed: ObservedPaths,
    /// What lies below directories that stand at a wanted leaf's path.
    pub below: BTreeMap<ManagedPath, Vec<ManagedPath>>,
    /// Managed paths that are the same place as another one, mapped to that.
    pub aliases: BTreeMap<ManagedPath, ManagedPath>,
}

/// Looks at everything that is managed so far, by whatever says so, or shall be.
pub fn look(
    root: &Root,
    so_far: [&ManagedFiles; 2],
    desired: &ManagedFiles,
    remembered: &PriorChanges,
) -> Result<TreeObservation, HostError> {
    let [current, managed] = so_far.map(|managed| &managed.entries);
    let desired = &desired.entries;
    let mut observed: ObservedPaths = BTreeMap::new();
    let everything = current.iter().chain(managed).chain(desired);
    for path in paths(everything, remembered) {
        let node = root.node(&path)?;
        observed.insert(path, node);
    }
    let mut below = BTreeMap::new();
    let wanted = desired.iter().filter(|(_, entry)| !matches!(entry, FileEntry::Directory { .. }));
    for path in wanted.map(|(path, _)| path).chain(&remembered.originals) {
        if matches!(observed.get(path), Some(PathState::Directory { .. })) {
            let inside = root.below(path)?;
            for path in &inside {
                observed.insert(path.clone(), root.node(path)?);
            }
            below.insert(path.clone(), inside);
        }
    }
    hide_unreachable(root, &mut observed);
    let managed = current.keys().chain(managed.keys()).chain(desired.keys());
    let aliases = aliases(root, managed.collect(), &observed)?;
    Ok(TreeObservation { observed, below, aliases })
}

fn paths<'a>(
    entries: impl Iterator<Item = (&'a ManagedPath, &'a FileEntry)>,
    remembered: &PriorChanges,
) -> BTreeSet<ManagedPath> {
    let mut paths = BTreeSet::new();
    for constant in [ORIGINALS, ORIGINALS_OUTSIDE_ETC, UNIT_DIRECTORY] {
        insert(&mut paths, ManagedPath::constant(constant));
    }
    for path in remembered.originals.iter().chain(remembered.labels.keys()) {
        insert(&mut paths, path.clone());
    }
    for path in &remembered.originals {
        insert(&mut paths, GenerationRecord::original_of(path));
    }
    for (path, entry) in entries {
        insert(&mut paths, path.clone());
        if let FileEntry::HardLink { target } = entry {
            insert(&mut paths, target.clone());
        }
    }
    paths
}

/// Adds a path, and the directories above it unless they are there: most files share theirs.
fn insert(paths: &mut BTreeSet<ManagedPath>, path: ManagedPath) {
    for path in std::iter::successors(Some(path), ManagedPath::parent) {
        if !paths.insert(path) {
            break;
        }
    }
}

/// A link that leads to no directory has nothing below it.
fn hide_unreachable(root: &Root, observed: &mut ObservedPaths) {
    let is_above = |path: &ManagedPath| below(observed, path.as_str()).next().is_some();
    let dangling: Vec<ManagedPath> = observed
        .iter()
        .filter(|(path, node)| {
            matches!(node, PathState::Symlink { .. }) && is_above(path) && !root.leads_to_directory(path)
        })
        .map(|(path, _)| path.clone())
        .collect();
    for link in dangling {
        let hidden: Vec<ManagedPath> = below(observed, link.as_str()).map(|(path, _)| path.clone()).collect();
        observed.extend(hidden.into_iter().map(|path| (path, PathState::Unreachable)));
    }
}

/// Managed paths that are one place under two names, because a directory above one of them is a
/// link. Each is mapped to the name that comes first.
fn aliases(
    root: &Root,
    managed: BTreeSet<&ManagedPath>,
    observed: &ObservedPaths,
) -> Result<BTreeMap<ManagedPath, ManagedPath>, HostError> {
    let (mut places, mut aliases) = (BTreeMap::new(), BTreeMap::new());
    for path in managed {
        let reachable = observed.get(path) != Some(&PathState::Unreachable);
        let Some(place) = (if reachable { root.place(path)? } else { None }) else { continue };
        match places.get(&place) {
            None => drop(places.insert(place, path.clone())),
            Some(first) => drop(aliases.insert(path.clone(), first.clone())),
        }
    }
    Ok(aliases)
}
