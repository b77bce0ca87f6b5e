//! Run-time-owned files of the last booted deployment, carried forward into the `/etc` of an older one when
//! that boots again: certificates, static pods and host keys that other programs wrote since then must not
//! go back in time.

use std::collections::BTreeSet;

use crate::core::config::host_config::HostConfig;
use crate::core::plan::steps::PlanStep;
use crate::core::state::carry_forward;
use crate::core::state::carry_forward::account_merge;
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::{FileAttributes, PathState};
use crate::host::{HostError, Root};

/// Directory of the SSH host keys.
const SSH: &str = "/etc/ssh";

/// Plan the steps that copy run-time-owned paths from `newer` to `older`. Paths managed by `config`, the
/// config of `older`, keep its content; trust material is copied nevertheless.
pub(crate) fn carry_forward_steps(
    older: &Root,
    newer: &Root,
    config: Option<&HostConfig>,
) -> Result<Vec<PlanStep>, HostError> {
    let managed = |path: &ManagedPath| config.is_some_and(|config| config.files.contains_key(path));
    let mut paths = BTreeSet::new();
    for top in carry_forward::runtime_owned_paths() {
        for root in [older, newer] {
            paths.extend(root.below(&top)?);
        }
        paths.insert(top);
    }
    for root in [older, newer] {
        let ssh = ManagedPath::constant(SSH);
        let keys = root.list(&ssh)?.into_iter().map(|name| ssh.join(&name));
        paths.extend(keys.filter(carry_forward::is_host_key));
    }
    paths.retain(|path| carry_forward::is_trust_material(path) || !managed(path));
    let (mut made, mut removed) = (above(older, newer)?, Vec::new());
    for path in paths {
        match (older.path_state(&path)?, newer.path_state(&path)?) {
            (PathState::Directory { .. }, PathState::Absent) => {
                removed.push(PlanStep::RemoveDirectory { path });
            }
            (PathState::Absent, PathState::Absent) => {}
            (_, PathState::Absent) => removed.push(PlanStep::Remove { path }),
            (before, after) => made.extend(copy_step(older, newer, path, &before, after)?),
        }
    }
    // A directory can only be removed once it is empty.
    removed.reverse();
    made.extend(removed);
    Ok(made)
}

/// Create the missing parent directories of run-time-owned paths.
fn above(older: &Root, newer: &Root) -> Result<Vec<PlanStep>, HostError> {
    let directories: BTreeSet<ManagedPath> =
        carry_forward::runtime_owned_paths().flat_map(|top| top.ancestors().collect::<Vec<_>>()).collect();
    let mut steps = Vec::new();
    for path in directories {
        if let (PathState::Absent, PathState::Directory { attributes, .. }) =
            (older.path_state(&path)?, newer.path_state(&path)?)
        {
            steps.push(PlanStep::MakeDirectory { path, attributes });
        }
    }
    Ok(steps)
}

/// Return the step that copies `after` over `before` at `path`; `None` if both are equal. A directory in
/// place of a file, or the reverse, is skipped: an administrator changed it on purpose.
fn copy_step(
    older: &Root,
    newer: &Root,
    path: ManagedPath,
    before: &PathState,
    after: PathState,
) -> Result<Option<PlanStep>, HostError> {
    Ok(match (before, after) {
        (PathState::Absent, PathState::Directory { attributes, .. }) => {
            Some(PlanStep::MakeDirectory { path, attributes })
        }
        (
            PathState::File { attributes: old, digest: was, .. },
            PathState::File { attributes, digest, .. },
        ) if *old == attributes && *was == digest => None,
        (
            PathState::Absent | PathState::File { .. } | PathState::Symlink { .. },
            PathState::File { attributes, .. },
        ) => write(older, newer, path, attributes)?,
        (PathState::Symlink { target: was, .. }, PathState::Symlink { target, .. }) if *was == target => None,
        (
            PathState::Absent | PathState::File { .. } | PathState::Symlink { .. },
            PathState::Symlink { target, owner, .. },
        ) => Some(PlanStep::Symlink { path, target, owner }),
        _ => None,
    })
}

fn write(
    older: &Root,
    newer: &Root,
    path: ManagedPath,
    attributes: FileAttributes,
) -> Result<Option<PlanStep>, HostError> {
    let Some(contents) = newer.read(&path, limits::INFLATED_BYTES)? else { return Ok(None) };
    let before = older.read(&path, limits::INFLATED_BYTES)?;
    let merged = before.as_ref().and_then(|before| account_merge::merge(&path, before, &contents));
    if merged.is_some() && merged == before {
        return Ok(None);
    }
    Ok(Some(PlanStep::Write { path, contents: merged.unwrap_or(contents), attributes }))
}
