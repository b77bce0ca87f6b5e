//! Generation record: its composition, and the order in which record, tree and current config are written.

use std::collections::BTreeMap;

use super::agent_files::AgentFiles;
use super::current::{CurrentState, DecodedConfig};
use super::objects;
use super::objects::StoreLoadError;
use crate::core::config::host_config::HostConfig;
use crate::core::plan::steps::{PlanStep, PlannedSteps};
use crate::core::plan::{Plan, TreePlan, first_presets};
use crate::core::state::objects::{ActiveManifest, LastBooted, Manifest, SCHEMA as STORE_SCHEMA};
use crate::core::state::record::{DeploymentRecord, GenerationRecord, SCHEMA};
use crate::core::values::identifiers::{BootId, GenerationId};
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::{CURRENT_CONFIG, CURRENT_IMAGE, RECORD};
use crate::core::values::tree::PathState;
use crate::host::facts::boot;
use crate::host::{HostError, Root};
use crate::transaction::engine::labels::GenerationLabels;

/// systemd recognizes a first boot by an absent or uninitialized machine ID.
const MACHINE_ID: &str = "/etc/machine-id";

/// Compose the record of `plan`. The generation ID stays if the same config is applied again to a plain
/// tree, and in a live update, because the boot entry names it.
#[must_use]
pub(crate) fn compose_record(
    current: &CurrentState,
    desired: &DecodedConfig,
    plan: &Plan,
    labels: GenerationLabels,
    deployment: Option<DeploymentRecord>,
    boot_id: &BootId,
) -> GenerationRecord {
    let tree = plan.tree.as_ref();
    let in_etc = |path: &&ManagedPath| path.is_within("/etc");
    let steps = tree.iter().map(|tree| &tree.steps);
    let mut record = GenerationRecord {
        schema: SCHEMA,
        generation: GenerationId::default(),
        sequence: 0,
        config: desired.object.name.clone(),
        config_hash: desired.config_hash(),
        profile: plan.profile,
        deployment,
        boot_id: BootId::default(),
        layered_image: desired.layered_image.clone(),
        manifest: tree
            .and_then(|tree| objects::manifest_digest(&tree.outside, plan.profile, &labels.manifest)),
        applied: applied(&desired.host),
        unsupported: plan.unsupported.clone(),
        deferred: plan.deferred.clone(),
        created_directories: steps
            .clone()
            .flat_map(|steps| steps.created_directories.iter().filter(in_etc).cloned())
            .collect(),
        originals: steps.flat_map(|steps| steps.originals.iter().filter(in_etc).cloned()).collect(),
        labels: labels.record,
    };
    let before = current.record.as_ref();
    let kept = before.filter(|before| match (&before.deployment, &record.deployment) {
        (None, None) => before.config_hash == record.config_hash,
        (Some(before), Some(deployed)) => before.id() == deployed.id(),
        _ => false,
    });
    record.sequence = match (kept, &record.deployment) {
        (Some(kept), _) => kept.sequence,
        (None, Some(_)) => current.latest_sequence() + 1,
        (None, None) => 0,
    };
    let unchanged = before.filter(|before| {
        let (generation, boot_id) = (before.generation.clone(), before.boot_id.clone());
        GenerationRecord { generation, boot_id, ..record.clone() } == **before
    });
    record.generation = kept.map_or_else(boot::new_generation_id, |before| before.generation.clone());
    record.boot_id = unchanged.map_or_else(|| boot_id.clone(), |before| before.boot_id.clone());
    record
}

fn applied(config: &HostConfig) -> Vec<String> {
    let parts = [
        ("files", !config.files.is_empty()),
        ("directories", !config.directories.is_empty()),
        ("links", !config.links.is_empty()),
        ("units", !config.units.is_empty()),
        ("passwd", !config.passwd.users.is_empty()),
    ];
    parts.iter().filter(|(_, any)| *any).map(|(part, _)| (*part).to_owned()).collect()
}

/// Return the manifest of the files outside `/etc` that are active after `steps`.
pub(crate) fn active_manifest(
    record: &GenerationRecord,
    steps: &PlannedSteps,
    ran: Option<LastBooted>,
) -> ActiveManifest {
    let outside = |path: &&ManagedPath| !path.is_within("/etc");
    ActiveManifest {
        schema: STORE_SCHEMA,
        manifest: record.manifest,
        originals: steps.originals.iter().filter(outside).cloned().collect(),
        created_directories: steps.created_directories.iter().filter(outside).cloned().collect(),
        last_booted: ran,
        remaining: BTreeMap::new(),
    }
}

/// Return the identity of the deployment that `record` belongs to, which is running, for the active manifest. A plain tree has no
/// deployment and keeps the identity from `before`.
pub(crate) fn last_booted(record: &GenerationRecord, before: Option<&ActiveManifest>) -> Option<LastBooted> {
    let before = before.and_then(|active| active.last_booted.clone());
    let Some(deployed) = &record.deployment else { return before };
    let latest = before.map_or(0, |before| before.latest).max(record.sequence);
    Some(LastBooted { deployment: deployed.id(), generation: record.generation.clone(), latest })
}

/// Arrange the steps of a change of `/etc`: keep pre-images, write the record that names them, change the
/// tree, and write the current config last, as MCD's mark of a complete update. Empty if nothing differs.
pub(crate) fn etc_change_steps(
    files: &mut AgentFiles<'_>,
    steps: PlannedSteps,
    desired: &DecodedConfig,
    record: &GenerationRecord,
    between: impl FnOnce(&mut AgentFiles<'_>) -> Result<(), StoreLoadError>,
) -> Result<(), StoreLoadError> {
    let within_record = |path: &ManagedPath| ManagedPath::constant(RECORD).is_within(path.as_str());
    // Directories of the config that contain the record have to exist first.
    let (needed, others): (Vec<PlanStep>, Vec<PlanStep>) = steps
        .steps
        .into_iter()
        .partition(|step| matches!(step, PlanStep::MakeDirectory { path, .. } if within_record(path)));
    files.extend(steps.preserve);
    files.extend(needed);
    // The record holds no secrets; the config may.
    files.write(ManagedPath::constant(RECORD), record.render(), 0o644)?;
    files.extend(others);
    between(files)?;
    let image = record.layered_image.clone().unwrap_or_default();
    files.write(ManagedPath::constant(CURRENT_IMAGE), image.into_bytes(), 0o644)?;
    Ok(files.write(ManagedPath::constant(CURRENT_CONFIG), desired.render(), 0o600)?)
}

/// Before systemd's first boot of a deployment, add a preset file with the unit enablement of the config:
/// `systemctl preset-all` runs in that boot, and would override it. Remove the file afterwards.
pub(crate) fn first_presets(
    files: &mut AgentFiles<'_>,
    root: &Root,
    desired: &DecodedConfig,
) -> Result<(), HostError> {
    let path = first_presets::path();
    let machine_id = root.read(&ManagedPath::constant(MACHINE_ID), limits::FRAGMENT_BYTES)?;
    let text = first_presets::text(&desired.host);
    match text.filter(|_| first_presets::is_first_boot_ahead(machine_id.as_deref())) {
        Some(text) => files.write(path, text.into_bytes(), 0o644)?,
        None if root.exists(&path)? => files.extend([PlanStep::Remove { path }]),
        None => {}
    }
    Ok(())
}

/// Keep the local versions of the managed paths that have drifted, before they are replaced. A path that cannot be read,
/// such as one behind a user's link, is replaced all the same.
pub(crate) fn keep_undone<'p>(
    files: &mut AgentFiles<'_>,
    root: &Root,
    replaced: impl IntoIterator<Item = &'p ManagedPath>,
) -> Result<(), HostError> {
    for path in replaced {
        if matches!(root.path_state(path), Ok(PathState::File { .. } | PathState::Symlink { .. })) {
            let original = GenerationRecord::undone_of(path);
            files.make_parents(&original)?;
            files.extend([PlanStep::Preserve { path: path.clone(), original }]);
        }
    }
    Ok(())
}

/// Arrange the steps of a change of a plain tree or a live update, files outside `/etc` included. `labels` are those
/// of the manifest.
pub(crate) fn tree_change_steps(
    root: &Root,
    current: &CurrentState,
    tree: TreePlan,
    desired: &DecodedConfig,
    record: &GenerationRecord,
    labels: &BTreeMap<ManagedPath, String>,
) -> Result<Vec<PlanStep>, StoreLoadError> {
    let mut files = AgentFiles::after(root, Vec::new());
    keep_undone(&mut files, root, tree.replaced())?;
    // Also where the boot could not note it, on a full disk.
    let ran = last_booted(record, current.active.as_ref());
    let mut active = active_manifest(record, &tree.steps, ran);
    active.remaining = current.active.as_ref().map(|active| active.remaining.clone()).unwrap_or_default();
    active.remaining.retain(|path, _| !tree.outside.entries.contains_key(path));
    let before = current.record.as_ref().and_then(|record| record.manifest);
    etc_change_steps(&mut files, tree.steps, desired, record, |files| {
        objects::store_objects(files, &tree.outside, record.profile, labels)?;
        objects::write_active_manifest(files, current.active.as_ref(), &active)?;
        // Objects of deployments are pruned with those deployments, because they share the store.
        if before != record.manifest && record.deployment.is_none() {
            // The previous manifest stays in the store, for an administrator who restores the previous
            // `/etc`.
            let mut live = objects::load_referenced(root, before)?;
            let (manifest, _) = Manifest::of(&tree.outside, record.profile);
            live.extend(record.manifest.map(|digest| (digest, manifest)));
            files.extend(objects::prune(root, &live)?);
        }
        Ok(())
    })?;
    Ok(files.steps)
}
