//! Observation of managed paths, and of the directories above and below them. Read-only.

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

/// Result of an observation.
#[derive(Debug, Clone, Default)]
pub struct TreeObservation {
    /// State of the managed paths and of the directories above them.
    pub observed: ObservedPaths,
    /// Content of directories that occupy the path of a desired file or link, as far as all names in it can be
    /// written in a path.
    pub below: BTreeMap<ManagedPath, Vec<ManagedPath>>,
    /// Managed paths that are the same directory entry as another one, mapped to that one.
    pub aliases: BTreeMap<ManagedPath, ManagedPath>,
}

/// Observe all paths that are managed now (as of either set in `so_far`) or will be.
pub fn look(
    root: &Root,
    so_far: [&ManagedFiles; 2],
    desired: &ManagedFiles,
    prior: &PriorChanges,
) -> Result<TreeObservation, HostError> {
    let [current, managed] = so_far.map(|managed| &managed.entries);
    let desired = &desired.entries;
    let mut observed: ObservedPaths = BTreeMap::new();
    let everything = current.iter().chain(managed).chain(desired);
    for path in paths(everything, prior) {
        let node = match root.path_state(&path) {
            // The link itself is observed too, and obstructs the paths below it.
            Err(HostError::UntrustedLink { .. }) => PathState::Unreachable,
            node => node?,
        };
        observed.insert(path, node);
    }
    let mut below = BTreeMap::new();
    let wanted = desired.iter().filter(|(_, entry)| !matches!(entry, FileEntry::Directory { .. }));
    for path in wanted.map(|(path, _)| path).chain(&prior.originals) {
        if matches!(observed.get(path), Some(PathState::Directory { .. })) {
            let inside = match root.below(path) {
                // Anyone who may write there can make such a name, so it obstructs this path alone.
                Err(HostError::InvalidName { .. }) => continue,
                inside => inside?,
            };
            for path in &inside {
                observed.insert(path.clone(), root.path_state(path)?);
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
    prior: &PriorChanges,
) -> BTreeSet<ManagedPath> {
    let mut paths = BTreeSet::new();
    for constant in [ORIGINALS, ORIGINALS_OUTSIDE_ETC, UNIT_DIRECTORY] {
        insert(&mut paths, ManagedPath::constant(constant));
    }
    for path in prior.originals.iter().chain(prior.labels.keys()) {
        insert(&mut paths, path.clone());
    }
    for path in &prior.originals {
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

/// Add a path and the directories above it. Stops at the first known one: most files share directories.
fn insert(paths: &mut BTreeSet<ManagedPath>, path: ManagedPath) {
    for path in std::iter::successors(Some(path), ManagedPath::parent) {
        if !paths.insert(path) {
            break;
        }
    }
}

/// Mark everything below a dangling symbolic link as unreachable.
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

/// Find managed paths that are the same directory entry, because a directory above one of them is a symbolic
/// link. Each is mapped to the one that sorts first.
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
