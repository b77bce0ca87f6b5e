//! What runs carried into an older `/etc`: the first boot of a deployment that was left before must
//! not go back in time where others wrote meanwhile.

use std::collections::BTreeSet;

use crate::core::config::host_config::HostConfig;
use crate::core::plan::steps::Step;
use crate::core::state::carried;
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::{Attributes, Node};
use crate::host::{HostError, Root};

/// Where host keys lie.
const SSH: &str = "/etc/ssh";

/// The steps that make the run-time-owned paths of `older` those of `newer`. What the configuration
/// of `older` manages stays its own, trust material excepted.
pub(crate) fn steps(older: &Root, newer: &Root, config: Option<&HostConfig>) -> Result<Vec<Step>, HostError> {
    let managed = |path: &ManagedPath| config.is_some_and(|config| config.files.contains_key(path));
    let mut paths = BTreeSet::new();
    for top in carried::owned_by_what_runs() {
        for root in [older, newer] {
            paths.extend(root.below(&top)?);
        }
        paths.insert(top);
    }
    for root in [older, newer] {
        let ssh = ManagedPath::constant(SSH);
        let keys = root.list(&ssh)?.into_iter().map(|name| ssh.join(&name));
        paths.extend(keys.filter(carried::is_host_key));
    }
    paths.retain(|path| carried::is_trust(path) || !managed(path));
    let (mut made, mut removed) = (above(older, newer)?, Vec::new());
    for path in paths {
        match (older.node(&path)?, newer.node(&path)?) {
            (Node::Directory { .. }, Node::Absent) => removed.push(Step::RemoveDirectory { path }),
            (Node::Absent, Node::Absent) => {}
            (_, Node::Absent) => removed.push(Step::Remove { path }),
            (before, after) => made.extend(copied(newer, path, &before, after)?),
        }
    }
    // What lies below goes before what it lies in.
    removed.reverse();
    made.extend(removed);
    Ok(made)
}

/// Directories above the run-time-owned ones that are missing.
fn above(older: &Root, newer: &Root) -> Result<Vec<Step>, HostError> {
    let directories: BTreeSet<ManagedPath> =
        carried::owned_by_what_runs().flat_map(|top| top.ancestors().collect::<Vec<_>>()).collect();
    let mut steps = Vec::new();
    for path in directories {
        if let (Node::Absent, Node::Directory { attributes, .. }) = (older.node(&path)?, newer.node(&path)?) {
            steps.push(Step::MakeDirectory { path, attributes });
        }
    }
    Ok(steps)
}

/// How what stands at `path` becomes `after`. A path that changes its type is passed over: what is
/// there was put there on purpose.
fn copied(newer: &Root, path: ManagedPath, before: &Node, after: Node) -> Result<Option<Step>, HostError> {
    Ok(match (before, after) {
        (Node::Absent, Node::Directory { attributes, .. }) => Some(Step::MakeDirectory { path, attributes }),
        (Node::File { attributes: old, digest: was, .. }, Node::File { attributes, digest, .. })
            if *old == attributes && *was == digest =>
        {
            None
        }
        (Node::Absent | Node::File { .. } | Node::Symlink { .. }, Node::File { attributes, .. }) => {
            write(newer, path, attributes)?
        }
        (Node::Symlink { target: was, .. }, Node::Symlink { target, .. }) if *was == target => None,
        (Node::Absent | Node::File { .. } | Node::Symlink { .. }, Node::Symlink { target, owner, .. }) => {
            Some(Step::Symlink { path, target, owner })
        }
        _ => None,
    })
}

fn write(newer: &Root, path: ManagedPath, attributes: Attributes) -> Result<Option<Step>, HostError> {
    let contents = newer.read(&path, limits::INFLATED_BYTES)?;
    Ok(contents.map(|contents| Step::Write { path, contents, attributes }))
}
