//! Drift repair: restore drifted paths whose drift policy is `repair`.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::history::{HistoryEvent, HistoryNote};
use crate::core::plan::drift::repair_plan;
use crate::core::plan::drift::repair_plan::RepairPlan;
use crate::core::plan::drift::{Drift, DriftFinding};
use crate::core::plan::service_actions;
use crate::core::plan::steps::{PlanStep, PlannedSteps};
use crate::core::state::journal::JournalScope;
use crate::core::state::objects::ActiveManifest;
use crate::core::state::record::GenerationRecord;
use crate::core::values::causes::chain;
use crate::core::values::identifiers::BootId;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::{CURRENT_CONFIG, CURRENT_IMAGE, RECORD};
use crate::core::values::tree::DriftKind;
use crate::host::facts::tree_facts::TreeScope;
use crate::host::systemd::service_port::NoServices;
use crate::host::{LockedHost, LockedRoot, Root, ServiceControl};
use crate::os::Sysroot;
use crate::transaction::TransactionError;
use crate::transaction::engine::apply::JournaledChange;
use crate::transaction::engine::{apply, labels};
use crate::transaction::history;
use crate::transaction::plan::drift::{DriftReport, find_drift};
use crate::transaction::plan::tree_plan::{TreeChange, plan_tree_update};
use crate::transaction::state::agent_files::AgentFiles;
use crate::transaction::state::current::{CurrentState, DecodedConfig};
use crate::transaction::state::settings::settings;
use crate::transaction::state::{interrupted, objects, record};
use crate::transaction::update::sysroot;

/// Paths that cannot be repaired, with reasons.
type Obstacles = BTreeMap<ManagedPath, String>;

/// Obstacle of a path that was repaired too often.
const HELD_BACK: &str = "it was repaired five times within an hour and changed again each time: stop the program that \
    changes it, or give the path another drift policy; `flameholder verify --repair` repairs it at once";

/// Repair drifted paths of the plain tree at `root` whose policy is `repair` in one transaction, and compare the tree
/// again.
pub fn repair(root: &LockedRoot<'_>) -> Result<DriftReport, TransactionError> {
    let policies = settings(root)?.drift;
    interrupted::recover_first(root)?;
    let current = CurrentState::load(root)?;
    let before = find_drift(root, &current, TreeScope::Everything, policies.clone())?;
    let chosen = before.repairable();
    if chosen.is_empty() {
        return Ok(before);
    }
    let obstacles = repair_chosen(root, &NoServices, &current, &before, &chosen)?;
    let after = find_drift(root, &CurrentState::load(root)?, TreeScope::Everything, policies)?;
    Ok(finish(root, before, after, chosen, &obstacles))
}

/// Repair drifted paths of the running host like [`repair`], but for those that are `held_back`. systemd reads its units
/// again if some of them were repaired.
pub fn repair_running(
    os: &mut dyn Sysroot,
    host: &LockedHost<'_>,
    services: &dyn ServiceControl,
    held_back: &BTreeSet<ManagedPath>,
) -> Result<DriftReport, TransactionError> {
    interrupted::recover_first(host)?;
    let mut before = sysroot::verify_running(os, host.running)?;
    let (held_back, chosen): (BTreeSet<ManagedPath>, BTreeSet<ManagedPath>) =
        before.repairable().into_iter().partition(|path| held_back.contains(path));
    let mut obstacles: Obstacles = held_back.into_iter().map(|path| (path, HELD_BACK.to_owned())).collect();
    if chosen.is_empty() {
        before.add_obstacles(&obstacles);
        return Ok(before);
    }
    let current = CurrentState::load(host)?;
    obstacles.extend(repair_chosen(host, services, &current, &before, &chosen)?);
    let after = sysroot::verify_running(os, host.running)?;
    Ok(finish(host, before, after, chosen, &obstacles))
}

/// Add to the comparison after a repair the repaired paths and those that could not be; note it in the history.
fn finish(
    root: &Root,
    before: DriftReport,
    mut after: DriftReport,
    mut chosen: BTreeSet<ManagedPath>,
    obstacles: &Obstacles,
) -> DriftReport {
    chosen.retain(|path| !obstacles.contains_key(path));
    let remains = |drift: &Drift| {
        let found = |found: &DriftFinding| (&found.drift.path, found.drift.kind) == (&drift.path, drift.kind);
        after.findings.iter().any(found)
    };
    let drift = before.findings.into_iter().map(|found| found.drift);
    after.repaired = drift.filter(|drift| chosen.contains(&drift.path) && !remains(drift)).collect();
    after.restored = chosen;
    if !after.repaired.is_empty() {
        let note = HistoryNote::of(&before.record).with_paths(after.repaired.iter().map(|drift| &drift.path));
        history::note(root, HistoryEvent::Repaired, note);
    }
    after.add_obstacles(obstacles);
    after
}

/// Repair the chosen paths in one transaction; return the paths that cannot be repaired, with reasons.
fn repair_chosen(
    root: &LockedRoot<'_>,
    services: &dyn ServiceControl,
    current: &CurrentState,
    before: &DriftReport,
    chosen: &BTreeSet<ManagedPath>,
) -> Result<Obstacles, TransactionError> {
    let (Some(recorded), Some(configuration)) = (&current.record, &current.configuration) else {
        return Ok(Obstacles::new());
    };
    if !record_matches_config(before) {
        let reason = "record and current config belong to different changes; run `flameholder apply` first";
        return Ok(chosen.iter().map(|path| (path.clone(), reason.to_owned())).collect());
    }
    carry_out(root, services, current, recorded, configuration, chosen)
}

/// Return true if the record has the digest of the current config.
fn record_matches_config(verified: &DriftReport) -> bool {
    let torn = |path: &ManagedPath, kind| path.as_str() == RECORD && kind == DriftKind::Content;
    !verified.findings.iter().any(|found| torn(&found.drift.path, found.drift.kind))
}

fn carry_out(
    root: &LockedRoot<'_>,
    services: &dyn ServiceControl,
    current: &CurrentState,
    recorded: &GenerationRecord,
    configuration: &DecodedConfig,
    chosen: &BTreeSet<ManagedPath>,
) -> Result<Obstacles, TransactionError> {
    let host = &configuration.host;
    let change = TreeChange {
        current,
        before: Some(host),
        desired: host,
        profile: recorded.profile,
        scope: TreeScope::Everything,
        // A repair changes chosen paths only, and those with local changes that are kept are never chosen.
        merging: None,
    };
    let plan = plan_tree_update(root, change)?;
    let tree = plan.tree.unwrap_or_default();
    let RepairPlan { steps, created_directories, mut obstacles } = repair_plan::plan_repair(&tree, chosen);
    obstacles.extend(lost_originals(current, chosen));
    let record = with_created_directories(recorded, &created_directories, root.boot_id());
    let rewrites = |path: &ManagedPath| match path.as_str() {
        RECORD => record != *recorded || chosen.contains(path),
        CURRENT_CONFIG => chosen.contains(path),
        CURRENT_IMAGE => false,
        _ => true,
    };
    let mut files = AgentFiles::after(root, Vec::new());
    let is_changed = |path: &&ManagedPath| steps.iter().any(|step| step.path() == *path);
    record::keep_undone(&mut files, root, tree.replaced().into_iter().filter(is_changed))?;
    let steps = PlannedSteps { steps, ..PlannedSteps::default() };
    record::etc_change_steps(&mut files, steps, configuration, &record, |files| {
        let active = current
            .active
            .as_ref()
            .map(|active| active_with_created_directories(active, &created_directories));
        Ok(active.map_or(Ok(()), |active| {
            objects::write_active_manifest(files, current.active.as_ref(), &active)
        })?)
    })?;
    let mut steps = files.steps;
    steps.retain(|step| rewrites(step.path()));
    let labels = labels::labels_of_steps(root.as_root(), &steps, &current.given_labels())?;
    let change = JournaledChange {
        current: Some(&recorded.generation),
        target: Some(&record.generation),
        boot_id: root.boot_id(),
        scope: JournalScope::Deployment,
        steps: &steps,
        labels: &labels,
        actions: &[],
    };
    apply::apply(root.as_root(), &NoServices, change)?;
    reload_units(services, &steps);
    Ok(obstacles)
}

/// Have systemd read repaired units again. No part of the change: a repaired file is better than none, also where systemd
/// does not answer.
fn reload_units(services: &dyn ServiceControl, steps: &[PlanStep]) {
    for action in service_actions::reload_after(steps) {
        if let Err(error) = services.perform(action) {
            log::warn!("units were repaired, but {}; run `systemctl daemon-reload`", chain(&error));
        }
    }
}

/// Find the chosen pre-images, which nothing can restore.
fn lost_originals(current: &CurrentState, chosen: &BTreeSet<ManagedPath>) -> Obstacles {
    let originals = current.prior_changes().originals.into_iter();
    let originals = originals.map(|path| (GenerationRecord::original_of(&path), path));
    let lost = originals.filter(|(original, _)| chosen.contains(original));
    lost.map(|(original, path)| (original, format!("the pre-image of {path} has no other copy"))).collect()
}

/// Add directories that the repair created to the record.
fn with_created_directories(
    recorded: &GenerationRecord,
    created: &BTreeSet<ManagedPath>,
    boot_id: &BootId,
) -> GenerationRecord {
    let known: BTreeSet<ManagedPath> = recorded.created_directories.iter().cloned().collect();
    let created: BTreeSet<ManagedPath> =
        created.iter().filter(|path| path.is_within("/etc")).cloned().collect();
    if created.is_subset(&known) {
        return recorded.clone();
    }
    GenerationRecord {
        created_directories: known.union(&created).cloned().collect(),
        boot_id: boot_id.to_owned(),
        ..recorded.clone()
    }
}

/// Add directories outside `/etc` that the repair created to the active manifest.
fn active_with_created_directories(
    active: &ActiveManifest,
    created: &BTreeSet<ManagedPath>,
) -> ActiveManifest {
    let known: BTreeSet<ManagedPath> = active.created_directories.iter().cloned().collect();
    let created = created.iter().filter(|path| !path.is_within("/etc"));
    ActiveManifest {
        created_directories: known
            .into_iter()
            .chain(created.cloned())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect(),
        ..active.clone()
    }
}
