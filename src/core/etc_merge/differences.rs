//! Differences between two `/etc` trees, such as the unmanaged paths that a rollback leaves as they are.

use std::path::{Path, PathBuf};

use super::tree::{EtcEntries, EtcNode};

/// Return the paths at which two directories differ, sorted, relative to them. A directory that exists in one
/// of them only counts by its entries, unless it has none on that side.
#[must_use]
pub fn differing_paths(left: &EtcNode, right: &EtcNode) -> Vec<PathBuf> {
    let mut found = Vec::new();
    compare(Some(left), Some(right), Path::new(""), &mut found);
    found.sort();
    found
}

fn compare(left: Option<&EtcNode>, right: Option<&EtcNode>, path: &Path, found: &mut Vec<PathBuf>) {
    let is_like = match (left, right) {
        (Some(left), Some(right)) => left.is_like(right),
        (Some(one), None) | (None, Some(one)) => one.entries().is_some_and(|entries| !entries.is_empty()),
        (None, None) => true,
    };
    if !is_like {
        found.push(path.to_owned());
    }
    let nothing = EtcEntries::new();
    let left = left.and_then(EtcNode::entries).unwrap_or(&nothing);
    let right = right.and_then(EtcNode::entries).unwrap_or(&nothing);
    for (name, node) in left {
        compare(Some(node), right.get(name), &path.join(name), found);
    }
    for (name, node) in right.iter().filter(|(name, _)| !left.contains_key(*name)) {
        compare(None, Some(node), &path.join(name), found);
    }
}
