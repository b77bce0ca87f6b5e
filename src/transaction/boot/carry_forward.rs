//! Run-time-owned files of the last booted deployment, carried forward into the `/etc` of an older one when
//! that boots again: certificates, static pods and host keys that other programs wrote since then must not
//! go back in time.

use std::collections::{BTreeMap, BTreeSet};

use rustix::io::Errno;

use super::early_boot;
use super::partial_activation::{MAX_ROUNDS, failed_path, is_concerned};
use crate::core::config::host_config::HostConfig;
use crate::core::plan::steps::PlanStep;
use crate::core::state::booted_state::BootedState;
use crate::core::state::carry_forward;
use crate::core::state::carry_forward::account_merge;
use crate::core::state::record::GenerationRecord;
use crate::core::values::causes::chain;
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::core::values::tree::{FileAttributes, FileKind, PathState};
use crate::host::facts::booted;
use crate::host::{HostError, LockedHost, Root};
use crate::transaction::TransactionError;
use crate::transaction::engine::apply::{ApplyError, StepError};
use crate::transaction::engine::labels;
use crate::transaction::state::blocked::block;
use crate::transaction::state::current::CurrentState;
use crate::transaction::state::objects;

/// Directory of the SSH host keys.
const SSH: &str = "/etc/ssh";

/// Result of carrying files forward.
#[derive(Debug, Default)]
pub(crate) struct CarriedFiles {
    /// Number of changed paths.
    pub(crate) changed: usize,
    /// Paths that stay as they are, each with the reason.
    pub(crate) problems: Vec<String>,
}

/// Carry run-time-owned files of the last booted deployment forward into the `/etc` of the booted one, if that is older. The
/// `/etc` of a deployment that boots for the first time was merged from the running `/etc` and needs nothing. Paths that cannot
/// be read or written are left out; after an error, nothing was written.
pub(crate) fn carry_forward(
    host: &LockedHost<'_>,
    state: BootedState,
    record: &GenerationRecord,
) -> Result<CarriedFiles, TransactionError> {
    // The activation reports an unreadable manifest.
    let active = objects::load_active(host).unwrap_or_default();
    let Some(ran) = active.and_then(|active| active.last_booted) else { return Ok(CarriedFiles::default()) };
    let is_left = ran.deployment != host.running.booted.deployment && record.sequence <= ran.latest;
    if state != BootedState::Complete || !is_left {
        return Ok(CarriedFiles::default());
    }
    let last = match booted::open_beside_booted(&ran.deployment) {
        Ok(last) => last,
        Err(error) => {
            log::warn!(
                "cannot carry files forward from deployment {}: {error}",
                ran.deployment,
                error = chain(&error)
            );
            return Ok(CarriedFiles::default());
        }
    };
    // An unreadable record may be why that deployment was left, and is no reason to stop here.
    let left = CurrentState::load_record(&last).unwrap_or_else(|error| {
        log::warn!("cannot block the target of deployment {}: {}", ran.deployment, chain(&error));
        None
    });
    if let Some(left) = left.filter(|left| left.sequence > record.sequence) {
        let how = host.running.booted.choice().description();
        let reason = format!("a previous deployment was booted, {how}");
        block(host, &left, reason.as_str().into())?;
    }
    let (current, _) = CurrentState::load_available(host)?;
    let (steps, problems) = carry_forward_steps(host, &last, current.host());
    write_steps(host, record, steps, problems, &current.prior_changes().labels)
}

/// Write `steps`, without those at paths that refuse it.
fn write_steps(
    host: &LockedHost<'_>,
    record: &GenerationRecord,
    mut steps: Vec<PlanStep>,
    mut problems: Vec<String>,
    given: &BTreeMap<ManagedPath, String>,
) -> Result<CarriedFiles, TransactionError> {
    for round in 1.. {
        let labels = labels::labels_of_steps(host.as_root(), &steps, given)?;
        let error = match early_boot::apply_steps(host, [Some(&record.generation); 2], &steps, &labels) {
            Ok(()) => break,
            Err(error) => error,
        };
        let before = steps.len();
        if let Some(failed) = failed_path(&error).filter(|_| !is_about_all_paths(&error)) {
            steps.retain(|step| !is_concerned(step.path(), &failed));
        }
        if steps.is_empty() || steps.len() == before || round == MAX_ROUNDS {
            return Err(error);
        }
        problems.push(error.chain());
    }
    Ok(CarriedFiles { changed: steps.len(), problems })
}

/// Return true for an error that each path would meet, such as a full disk.
fn is_about_all_paths(error: &TransactionError) -> bool {
    const SHARED: [Errno; 6] =
        [Errno::NOSPC, Errno::DQUOT, Errno::ROFS, Errno::IO, Errno::MFILE, Errno::NFILE];
    match error {
        TransactionError::Apply(ApplyError::Undone(StepError::Path(failed))) => {
            failed.error.errno().is_some_and(|errno| SHARED.contains(&errno))
        }
        _ => true,
    }
}

/// Plan the steps that copy run-time-owned paths from `newer` to `older`, and list the unreadable ones. Paths managed by
/// `config`, the config of `older`, keep its content; trust material is copied nevertheless.
fn carry_forward_steps(
    older: &Root,
    newer: &Root,
    config: Option<&HostConfig>,
) -> (Vec<PlanStep>, Vec<String>) {
    let managed = |path: &ManagedPath| config.is_some_and(|config| config.files.contains_key(path));
    let mut problems = Vec::new();
    let mut paths = BTreeSet::new();
    for root in [older, newer] {
        for top in carry_forward::runtime_owned_paths() {
            collect_below(root, &top, &mut paths, &mut problems);
            paths.insert(top);
        }
        let ssh = ManagedPath::constant(SSH);
        match root.list(&ssh) {
            Ok(names) => {
                paths.extend(names.iter().map(|name| ssh.join(name)).filter(carry_forward::is_host_key));
            }
            Err(error) => problems.push(chain(&error)),
        }
    }
    paths.retain(|path| carry_forward::is_trust_material(path) || !managed(path));
    let mut made = above(older, newer).unwrap_or_else(|error| {
        problems.push(chain(&error));
        Vec::new()
    });
    let mut removed = Vec::new();
    for path in paths {
        match path_step(older, newer, path) {
            Ok(Some(step @ (PlanStep::Remove { .. } | PlanStep::RemoveDirectory { .. }))) => {
                removed.push(step);
            }
            Ok(step) => made.extend(step),
            Err(error) => problems.push(chain(&error)),
        }
    }
    // A directory can only be removed once it is empty.
    removed.reverse();
    made.extend(removed);
    (made, problems)
}

/// Collect the paths below the directory `top`, without following links: their targets are none of these paths. A name that no
/// path can have is a problem, and the others are carried forward.
fn collect_below(
    root: &Root,
    top: &ManagedPath,
    found: &mut BTreeSet<ManagedPath>,
    problems: &mut Vec<String>,
) {
    let (names, others) = match root.list(top).and_then(|names| Ok((names, root.unmentionable(top)?))) {
        Ok(listed) => listed,
        Err(error) => return problems.push(chain(&error)),
    };
    problems.extend(others.iter().map(|name| format!("{top}/{name}: a name that is not valid UTF-8 stays")));
    for path in names.iter().map(|name| top.join(name)) {
        match root.status_of(&path) {
            Ok(Some(status)) if status.kind == FileKind::Directory => {
                collect_below(root, &path, found, problems);
            }
            Ok(_) => {}
            Err(error) => problems.push(chain(&error)),
        }
        found.insert(path);
    }
}

/// Return the step at one path; `None` if nothing is to be done.
fn path_step(older: &Root, newer: &Root, path: ManagedPath) -> Result<Option<PlanStep>, HostError> {
    match (older.path_state(&path)?, newer.path_state(&path)?) {
        (PathState::Directory { .. }, PathState::Absent) => Ok(Some(PlanStep::RemoveDirectory { path })),
        (PathState::Absent, PathState::Absent) => Ok(None),
        (_, PathState::Absent) => Ok(Some(PlanStep::Remove { path })),
        (before, after) => copy_step(older, newer, path, &before, after),
    }
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
