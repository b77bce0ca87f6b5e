//! Says of a tree which generation it is, with no help from the product: all that was there before, all that
//! the model and an undisturbed run make of it, or neither.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::Path;

use serde_json::Value;

use crate::model::likeness::undated;
use crate::model::snapshot::{self, Body, LOCK, Node, Snapshot};

/// What is where, without what every run makes anew.
pub type Sight = BTreeMap<String, Node>;

/// What is where and since when: its inode, and of a file or link when it was last written.
pub type Past = BTreeMap<String, (Node, u64, Option<(i64, i64)>)>;

/// The record, in which every new generation has a name of its own.
const RECORD: &str = "etc/flameholder/generation";

/// Where the product keeps what is not visible yet, and what it writes about itself.
const STAGING: &str = ".flameholder.d";
const JOURNALS: [&str; 2] = ["var/lib/flameholder/journal", "var/lib/flameholder/journal.new"];

/// What a tree is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Every path is as it was, and every file the very same one.
    Old,
    /// Every path is as it was to be.
    New,
    /// How it differs from the one and from the other.
    Neither { old: Vec<String>, new: Vec<String> },
}

/// What is below `root`, but for the lock, which may stay.
pub fn sight(root: &Path) -> Sight {
    let seen = present(root).into_iter();
    seen.map(|(path, (node, _))| (path.clone(), settled(&path, undated(&path, node)))).collect()
}

/// The same with what tells a file that was left alone from one that was written again alike.
pub fn past(root: &Path) -> Past {
    let seen = present(root).into_iter();
    seen.map(|(path, (node, (inode, modified, _)))| {
        // Of a directory the time tells what came and went in it.
        let modified = (node.body != Body::Directory).then_some(modified);
        (path, (node, inode, modified))
    })
    .collect()
}

/// What the tree at `root` is, that was `before` and was to be `wanted`.
pub fn judge(root: &Path, before: &Past, wanted: &Sight) -> Verdict {
    weigh(&|_| true, root, before, wanted)
}

/// The same for those who do not look at what the product keeps for itself.
pub fn judge_visible(root: &Path, before: &Past, wanted: &Sight) -> Verdict {
    weigh(&|path| !is_own(path) && !path.contains("flameholder/originals"), root, before, wanted)
}

fn weigh(counts: &dyn Fn(&str) -> bool, root: &Path, before: &Past, wanted: &Sight) -> Verdict {
    let old = differences(&past(root), before, counts);
    let new = differences(&sight(root), wanted, counts);
    match (old.is_empty(), new.is_empty()) {
        (true, _) => Verdict::Old,
        (_, true) => Verdict::New,
        _ => Verdict::Neither { old, new },
    }
}

/// Whether the product keeps it only until a change is settled.
fn is_own(path: &str) -> bool {
    path.split('/').any(|name| name == STAGING) || JOURNALS.contains(&path)
}

/// Complains about paths of an unsettled tree that are neither as before nor as they are to be: at each path
/// there is one or the other, whole.
pub fn torn(root: &Path, before: &Past, wanted: &Sight) -> Vec<String> {
    let before: Sight = before
        .iter()
        .map(|(path, (node, ..))| (path.clone(), settled(path, undated(path, node.clone()))))
        .collect();
    let now = sight(root);
    let mut paths: BTreeSet<&String> = now.keys().chain(before.keys()).chain(wanted.keys()).collect();
    paths.retain(|path| !is_own(path));
    // Owner and mode of a directory are two calls, one after the other.
    let is_directory = |node: Option<&Node>| node.is_some_and(|node| node.body == Body::Directory);
    let alike = |a: Option<&Node>, b: Option<&Node>| a == b || is_directory(a) && is_directory(b);
    let whole = |path: &str| {
        let (now, before, wanted) = (now.get(path), before.get(path), wanted.get(path));
        // A file and a directory trade places in two steps, since the one or the other may not be empty.
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

/// Takes the name and the boot of its generation from the record.
fn settled(path: &str, mut node: Node) -> Node {
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
    differ.map(|path| format!("{path} is {:?}, not {:?}", is.get(path), wanted.get(path))).collect()
}
