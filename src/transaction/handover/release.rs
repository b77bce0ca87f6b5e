//! Release of a host to the machine-config-daemon (MCD): the current config stays, the generation record
//! goes.

use std::collections::{BTreeMap, BTreeSet};

use super::{HandoverError, ensure_daemon_stopped, shipped};
use crate::core::config::host_config::HostConfig;
use crate::core::config::managed_files;
use crate::core::history::{HistoryEvent, HistoryNote};
use crate::core::plan::steps::PlanStep;
use crate::core::state::blocked::BLOCKED;
use crate::core::state::journal::JournalScope;
use crate::core::state::mcd_originals;
use crate::core::state::mcd_originals::{NOORIG, ORIG};
use crate::core::state::objects::ACTIVE;
use crate::core::state::pending::PENDING;
use crate::core::state::pending::unconfirmed_mark::UNCONFIRMED;
use crate::core::state::record::GenerationRecord;
use crate::core::values::identifiers::ConfigName;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::{DAEMON_ENVIRONMENT, RECORD};
use crate::core::values::tree::PathState;
use crate::host::systemd::service_port::NoServices;
use crate::host::{LockedHost, Root, RunningHost};
use crate::os::Sysroot;
use crate::transaction::TransactionError;
use crate::transaction::engine::apply::JournaledChange;
use crate::transaction::engine::{apply, atomic_file, labels};
use crate::transaction::history;
use crate::transaction::state::agent_files::AgentFiles;
use crate::transaction::state::current::CurrentState;
use crate::transaction::state::error::StateError;
use crate::transaction::state::unconfirmed_mark::workload_gate;
use crate::transaction::state::{interrupted, objects, pending};
use crate::transaction::update::sysroot;

/// Advice for drift on the host.
const WAY_OUT: &str = "restore these paths, or apply the configuration again; the machine-config-daemon would report config drift";

/// Result of a release.
#[derive(Debug)]
pub struct ReleaseOutcome {
    /// Name of the current config.
    pub config: ConfigName,
    /// Pre-images that MCD has no place for, by managed path: files of an administrator, kept where they
    /// are.
    pub kept: BTreeMap<ManagedPath, ManagedPath>,
}

/// Remove the generation record, and leave the files that MCD reads. `None` if the booted deployment has no
/// record.
pub fn release(
    os: &mut dyn Sysroot,
    host: &LockedHost<'_>,
) -> Result<Option<ReleaseOutcome>, TransactionError> {
    ensure_daemon_stopped()?;
    interrupted::recover_first(host)?;
    if let Some(pending) = pending::load(host.as_root())? {
        return Err(HandoverError::Pending(pending.generation().to_owned()).into());
    }
    let current = CurrentState::load(host)?;
    let (Some(record), Some(configuration)) = (&current.record, &current.configuration) else {
        return Ok(None);
    };
    ensure_releasable(os, record, host.running, &configuration.host)?;
    let mut files = AgentFiles::after(host, Vec::new());
    let kept = restore_mcd_originals(host, &mut files, &configuration.host, &current)?;
    let mut steps = files.steps;
    steps.extend(objects::prune(host, &BTreeMap::new())?);
    steps.extend(workload_gate::removal_steps(host)?);
    let own = [ACTIVE, BLOCKED, DAEMON_ENVIRONMENT, PENDING, RECORD, UNCONFIRMED].map(ManagedPath::constant);
    let set_aside = own.iter().map(atomic_file::aside).collect::<Vec<_>>();
    for path in own.into_iter().chain(set_aside) {
        if host.exists(&path)? {
            steps.push(PlanStep::Remove { path });
        }
    }
    let change = JournaledChange {
        current: Some(&record.generation),
        target: None,
        boot_id: host.boot_id(),
        scope: JournalScope::Deployment,
        steps: &steps,
        labels: &labels::labels_of_steps(host.as_root(), &steps, &BTreeMap::new())?,
        actions: &[],
    };
    apply::apply(host.as_root(), &NoServices, change)?;
    history::note(host, HistoryEvent::HandedBack, HistoryNote::of(record));
    Ok(Some(ReleaseOutcome { config: record.config.clone(), kept }))
}

/// Fail unless MCD would accept the host without changes.
fn ensure_releasable(
    os: &mut dyn Sysroot,
    record: &GenerationRecord,
    running: &RunningHost,
    host: &HostConfig,
) -> Result<(), TransactionError> {
    let booted = &running.booted.deployment;
    if !record.names(booted) {
        return Err(StateError::ForeignDeployment(booted.to_string()).into());
    }
    if let Some((path, _)) = host.files.iter().find(|(_, file)| !file.append.is_empty()) {
        return Err(HandoverError::Appended(path.to_string()).into());
    }
    let config = record.config.clone();
    let runs = sysroot::booted_deployment(os, running)?.and_then(|runs| runs.image);
    let runs = runs.map_or_else(|| "no image with a name".to_owned(), |runs| runs.name().to_owned());
    if let Some(desired) = host.os.image.clone().filter(|desired| *desired != runs) {
        return Err(HandoverError::OtherName { config, desired, runs }.into());
    }
    // MCD knows no drift policies, so ignored paths count as well.
    let drift: Vec<_> =
        sysroot::verify_running(os, running)?.findings.into_iter().map(|found| found.drift).collect();
    if drift.is_empty() {
        return Ok(());
    }
    Err(HandoverError::Drifted { config, drift, way_out: WAY_OUT }.into())
}

/// Give MCD its copies of original files, and stamps for paths without one, in the way that MCD makes them:
/// stamps for files only, and no copy of files that no image or package ships. Pre-images of the latter
/// stay in our directory and are returned.
fn restore_mcd_originals(
    root: &Root,
    files: &mut AgentFiles<'_>,
    host: &HostConfig,
    current: &CurrentState,
) -> Result<BTreeMap<ManagedPath, ManagedPath>, TransactionError> {
    let ours = current.prior_changes().originals;
    let (mut expected, mut kept) = (BTreeSet::new(), BTreeMap::new());
    for path in managed_files::written_paths(host) {
        let (copy, stamp) = (mcd_originals::orig_copy_of(&path), mcd_originals::noorig_stamp_of(&path));
        let shipped = shipped_leaf(root, &path)?;
        let is_file = host.files.contains_key(&path);
        let original = ours.contains(&path).then(|| GenerationRecord::original_of(&path));
        match (original, shipped) {
            (Some(original), shipped) if shipped.is_some() || !is_file => {
                files.make_parents(&copy)?;
                files.extend([
                    PlanStep::Preserve { path: original.clone(), original: copy.clone() },
                    PlanStep::Remove { path: original },
                ]);
                expected.insert(copy);
            }
            (None, Some(shipped)) => {
                files.make_parents(&copy)?;
                files.extend([PlanStep::Preserve { path: shipped, original: copy.clone() }]);
                expected.insert(copy);
            }
            (original, _) if is_file => {
                files.write(stamp.clone(), Vec::new(), 0o644)?;
                expected.insert(stamp);
                kept.extend(original.map(|original| (path, original)));
            }
            _ => {}
        }
    }
    for top in [ORIG, NOORIG].map(ManagedPath::constant) {
        let stale = leaves(root, &top)?.into_iter().filter(|path| !expected.contains(path));
        files.extend(stale.map(|path| PlanStep::Remove { path }));
    }
    Ok(kept)
}

/// Return the path at which the image ships `path`, if a file or link is there.
fn shipped_leaf(root: &Root, path: &ManagedPath) -> Result<Option<ManagedPath>, TransactionError> {
    let Some(shipped) = shipped(path) else { return Ok(None) };
    let is_leaf = matches!(root.path_state(&shipped)?, PathState::File { .. } | PathState::Symlink { .. });
    Ok(is_leaf.then_some(shipped))
}

/// List all files and links below `directory`.
fn leaves(root: &Root, directory: &ManagedPath) -> Result<Vec<ManagedPath>, TransactionError> {
    let mut found = Vec::new();
    for path in root.list(directory)?.iter().map(|name| directory.join(name)) {
        match root.path_state(&path)? {
            PathState::Directory { .. } => found.extend(leaves(root, &path)?),
            PathState::File { .. } | PathState::Symlink { .. } => found.push(path),
            _ => {}
        }
    }
    Ok(found)
}
