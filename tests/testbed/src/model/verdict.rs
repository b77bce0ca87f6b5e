//! Verdict on a tree without help from the product: wholly the tree before a change, wholly the tree that the
//! model and an undisturbed run give, or neither.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::Path;

use serde_json::Value;

use crate::model::comparison::undated;
use crate::model::snapshot::{self, Body, LOCK, Node, Snapshot};

/// Nodes by path, without content that differs in every run.
pub type Nodes = BTreeMap<String, Node>;

/// Nodes by path with their inode, and the modification time of files and links.
pub type IdentifiedNodes = BTreeMap<String, (Node, u64, Option<(i64, i64)>)>;

/// Path of the record, which has another generation name after every run.
const RECORD: &str = "etc/flameholder/generation";

/// Paths of the product's staging directories and journals.
const STAGING: &str = ".flameholder.d";
const JOURNALS: [&str; 2] = ["var/lib/flameholder/journal", "var/lib/flameholder/journal.new"];

/// State of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Every path is unchanged, and every file has its old inode.
    Old,
    /// Every path is as expected.
    New,
    /// Differences from both trees.
    Neither { old: Vec<String>, new: Vec<String> },
}

/// Nodes below `root`, without the lock, which may stay.
pub fn nodes(root: &Path) -> Nodes {
    let seen = present(root).into_iter();
    seen.map(|(path, (node, _))| (path.clone(), without_identity(&path, undated(&path, node)))).collect()
}

/// Nodes below `root` with the data that tell an unchanged file from one rewritten with equal content.
pub fn identified_nodes(root: &Path) -> IdentifiedNodes {
    let seen = present(root).into_iter();
    seen.map(|(path, (node, (inode, modified, _)))| {
        // The modification time of a directory changes with its entries.
        let modified = (node.body != Body::Directory).then_some(modified);
        (path, (node, inode, modified))
    })
    .collect()
}

/// Compare the tree at `root` with the tree `before` the change and the expected tree.
pub fn verdict(root: &Path, before: &IdentifiedNodes, wanted: &Nodes) -> Verdict {
    compare(&|_| true, root, before, wanted)
}

/// The same comparison without the product's own files.
pub fn visible_verdict(root: &Path, before: &IdentifiedNodes, wanted: &Nodes) -> Verdict {
    compare(&|path| !is_own(path) && !path.contains("flameholder/originals"), root, before, wanted)
}

fn compare(counts: &dyn Fn(&str) -> bool, root: &Path, before: &IdentifiedNodes, wanted: &Nodes) -> Verdict {
    let old = differences(&identified_nodes(root), before, counts);
    let new = differences(&nodes(root), wanted, counts);
    match (old.is_empty(), new.is_empty()) {
        (true, _) => Verdict::Old,
        (_, true) => Verdict::New,
        _ => Verdict::Neither { old, new },
    }
}

/// True if the product keeps the path only until a change is committed or recovered.
fn is_own(path: &str) -> bool {
    path.split('/').any(|name| name == STAGING) || JOURNALS.contains(&path)
}

/// Complaints about paths that are neither old nor new while a change is open: each path must be one or the
/// other, whole.
pub fn torn(root: &Path, before: &IdentifiedNodes, wanted: &Nodes) -> Vec<String> {
    let before: Nodes = before
        .iter()
        .map(|(path, (node, ..))| (path.clone(), without_identity(path, undated(path, node.clone()))))
        .collect();
    let now = nodes(root);
    let mut paths: BTreeSet<&String> = now.keys().chain(before.keys()).chain(wanted.keys()).collect();
    paths.retain(|path| !is_own(path));
    // Owner and mode of a directory are set by two calls.
    let is_directory = |node: Option<&Node>| node.is_some_and(|node| node.body == Body::Directory);
    let alike = |a: Option<&Node>, b: Option<&Node>| a == b || is_directory(a) && is_directory(b);
    let whole = |path: &str| {
        let (now, before, wanted) = (now.get(path), before.get(path), wanted.get(path));
        // A file and a directory replace each other in two steps: the directory must be empty and removed
        // first.
        let trades = before.is_some() && wanted.is_some() && is_directory(before) != is_directory(wanted);
        alike(now, before) || alike(now, wanted) || trades && now.is_none()
    };
    let torn = paths.into_iter().filter(|path| !whole(path));
    torn.map(|path| format!("{path} is {:?}", now.get(path))).collect()
}

fn present(root: &Path) -> Snapshot {
    let mut seen = snapshot::take(root);
    let lock = Path::new(LOCK);
    for path in [Some(lock), lock.parent()].into_iter().flatten() {
        seen.remove(path.to_str().expect("UTF-8"));
    }
    seen
}

/// Remove the generation's name and boot ID from the record.
fn without_identity(path: &str, mut node: Node) -> Node {
    if let (RECORD, Body::File(bytes)) = (path, &mut node.body)
        && let Ok(mut record) = serde_json::from_slice::<Value>(bytes)
    {
        for own in ["generation", "bootId"] {
            record[own] = Value::Null;
        }
        *bytes = record.to_string().into_bytes();
    }
    node
}

fn differences<T: PartialEq + Debug>(
    is: &BTreeMap<String, T>,
    wanted: &BTreeMap<String, T>,
    counts: &dyn Fn(&str) -> bool,
) -> Vec<String> {
    let paths: BTreeSet<&String> = is.keys().chain(wanted.keys()).filter(|path| counts(path)).collect();
    let differ = paths.into_iter().filter(|path| is.get(*path) != wanted.get(*path));
    differ.map(|path| format!("{path} is {:?}, expected {:?}", is.get(path), wanted.get(path))).collect()
}
