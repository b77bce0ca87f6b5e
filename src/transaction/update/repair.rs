//! A tree brought back to what was applied last, where the settings ask for it and nowhere else.

use crate::transaction::state::interrupted;
use std::collections::{BTreeMap, BTreeSet};

use crate::core::config::settings::DriftPolicy;
use crate::core::plan::drift_repair;
use crate::core::plan::drift_repair::RepairPlan;
use crate::core::plan::steps::PlannedSteps;
use crate::core::state::journal::JournalScope;
use crate::core::state::objects::ActiveManifest;
use crate::core::state::record::GenerationRecord;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::{CURRENT_CONFIG, CURRENT_IMAGE, RECORD};
use crate::core::values::tree::DriftKind;
use crate::host::Root;
use crate::host::facts::boot;
use crate::host::facts::tree_facts::TreeScope;
use crate::host::fs::lock::HostLock;
use crate::host::systemd::service_port::NoServices;

use crate::transaction::TransactionError;
use crate::transaction::engine::apply;
use crate::transaction::engine::apply::JournaledChange;
use crate::transaction::engine::labels;
use crate::transaction::plan::drift::{DriftReport, find_drift};
use crate::transaction::plan::tree_plan;
use crate::transaction::state::agent_files::AgentFiles;
use crate::transaction::state::current::{CurrentState, DecodedConfig};
use crate::transaction::state::settings::settings;
use crate::transaction::state::{objects, record};

/// Paths, and why each stays as it is.
type Hindered = BTreeMap<ManagedPath, String>;

/// Repairs the deviations of the tree at `root` whose policy is `repair`, all in one transaction,
/// and compares again.
pub fn repair(root: &Root) -> Result<DriftReport, TransactionError> {
    let policies = settings(root)?.drift;
    let _lock = HostLock::take(root)?;
    interrupted::recover_first(root, &boot::boot_id())?;
    let current = CurrentState::load(root)?;
    let before = find_drift(root, &current, TreeScope::Everything, policies.clone())?;
    let chosen: BTreeSet<ManagedPath> = before
        .deviations
        .iter()
        .filter(|found| found.policy == DriftPolicy::Repair)
        .map(|found| found.drift.path.clone())
        .collect();
    let (Some(recorded), Some(configuration), false) =
        (&current.record, &current.configuration, chosen.is_empty())
    else {
        return Ok(before);
    };
    let hindered = if record_matches_config(&before) {
        carry_out(root, &current, recorded, configuration, &chosen)?
    } else {
        let reason = "an apply was interrupted, so what is right is not known: run `flameholder apply` to its end first";
        chosen.iter().map(|path| (path.clone(), reason.to_owned())).collect()
    };
    let mut after = find_drift(root, &CurrentState::load(root)?, TreeScope::Everything, policies)?;
    let remains = |path: &ManagedPath| after.deviations.iter().any(|found| found.drift.path == *path);
    let drift = before.deviations.into_iter().map(|found| found.drift);
    after.repaired = drift.filter(|drift| !remains(&drift.path)).collect();
    for found in &mut after.deviations {
        found.obstacle = hindered.get(&found.drift.path).cloned();
    }
    Ok(after)
}

/// Whether the record is that of the configuration beside it.
fn record_matches_config(verified: &DriftReport) -> bool {
    let torn = |path: &ManagedPath, kind| path.as_str() == RECORD && kind == DriftKind::Content;
    !verified.deviations.iter().any(|found| torn(&found.drift.path, found.drift.kind))
}

/// Repairs what can be repaired and says of the rest why it cannot.
fn carry_out(
    root: &Root,
    current: &CurrentState,
    recorded: &GenerationRecord,
    configuration: &DecodedConfig,
    chosen: &BTreeSet<ManagedPath>,
) -> Result<Hindered, TransactionError> {
    let host = &configuration.host;
    let plan = tree_plan::plan_tree_update(
        root,
        current,
        Some(host),
        host,
        recorded.profile,
        TreeScope::Everything,
    )?;
    let RepairPlan { steps, created_directories, mut hindered } =
        plan.tree.map(|tree| drift_repair::choose(&tree, chosen)).unwrap_or_default();
    for path in &recorded.originals {
        let original = GenerationRecord::original_of(path);
        if chosen.contains(&original) {
            let reason = format!("what stood at {path} before it was managed is kept nowhere else");
            hindered.insert(original, reason);
        }
    }
    let record = with_created_directories(recorded, &created_directories);
    let rewrites = |path: &ManagedPath| match path.as_str() {
        RECORD => record != *recorded || chosen.contains(path),
        CURRENT_CONFIG => chosen.contains(path),
        CURRENT_IMAGE => false,
        _ => true,
    };
    let mut files = AgentFiles::after(root, Vec::new());
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
    let labels = labels::labels_of_steps(root, &steps, &recorded.labels)?;
    let change = JournaledChange {
        current: Some(&recorded.generation),
        target: Some(&record.generation),
        boot_id: &boot::boot_id(),
        scope: JournalScope::Deployment,
        steps: &steps,
        labels: &labels,
        actions: &[],
    };
    apply::apply(root, &NoServices, change)?;
    Ok(hindered)
}

/// The record, with directories that were made on the way to what is back.
fn with_created_directories(
    recorded: &GenerationRecord,
    created: &BTreeSet<ManagedPath>,
) -> GenerationRecord {
    let known: BTreeSet<ManagedPath> = recorded.created_directories.iter().cloned().collect();
    let created: BTreeSet<ManagedPath> =
        created.iter().filter(|path| path.is_within("/etc")).cloned().collect();
    if created.is_subset(&known) {
        return recorded.clone();
    }
    GenerationRecord {
        created_directories: known.union(&created).cloned().collect(),
        boot_id: boot::boot_id(),
        ..recorded.clone()
    }
}

/// The same for what lies outside `/etc`.
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
