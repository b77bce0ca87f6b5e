//! Comparison of the product's tree with the model's.

use super::snapshot::{Body, Node, Snapshot};

/// Complaints about differences between the trees, without the product's own records and its empty staging
/// directories.
pub fn differences(is: &Snapshot, wanted: &Snapshot) -> Vec<String> {
    let staging = |path: &str| is[path].0.body == Body::Directory && path.ends_with(".flameholder.d");
    let seen = is.keys().filter(|path| !is_record(path) && !staging(path));
    let mut paths: Vec<&String> = seen.chain(wanted.keys()).collect();
    paths.sort();
    paths.dedup();
    let node = |tree: &Snapshot, path: &str| tree.get(path).map(|(node, _)| undated(path, node.clone()));
    paths
        .into_iter()
        .filter(|path| node(is, path) != node(wanted, path))
        .map(|path| format!("{path} is {:?}, expected {:?}", node(is, path), node(wanted, path)))
        .collect()
}

/// Remove the date of the last change from `core`'s line in the shadow file: the date of the test is correct
/// too.
pub fn undated(path: &str, mut node: Node) -> Node {
    if let ("etc/shadow", Body::File(bytes)) = (path, &mut node.body) {
        let shadow = String::from_utf8_lossy(bytes).into_owned();
        let lines = shadow.lines().map(|line| {
            let mut fields: Vec<&str> = line.split(':').collect();
            if let ["core", _, date, ..] = fields.as_mut_slice() {
                *date = "";
            }
            fields.join(":") + "\n"
        });
        *bytes = lines.collect::<String>().into_bytes();
    }
    node
}

/// True if the product keeps the path for itself or as a report for others.
pub fn is_record(path: &str) -> bool {
    const DAEMON: &str = "etc/machine-config-daemon";
    let below = |directory: &str| {
        path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    below("etc/flameholder")
        || below("var/lib/flameholder")
        || path == DAEMON
        || ["currentconfig", "currentimage", "orig", "noorig"]
            .iter()
            .any(|name| below(&format!("{DAEMON}/{name}")))
}
