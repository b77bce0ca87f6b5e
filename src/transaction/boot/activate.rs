//! Activation: put a generation's files outside `/etc` in place, by making `/var` match the record in
//! `/etc`, for newer and older generations alike. Needs no network, no D-Bus and no libostree.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::core::config::managed_files::ManagedFiles;
use crate::core::plan::steps;
use crate::core::plan::steps::{LinkChange, PlanStep, StepInputs};
use crate::core::state::carry_forward;
use crate::core::state::journal::JournalScope;
use crate::core::state::objects::{ActiveManifest, LastBooted};
use crate::core::state::record::GenerationRecord;
use crate::core::values::identifiers::{BootId, GenerationId};
use crate::core::values::names::ManagedPath;
use crate::core::values::profile::Profile;
use crate::core::values::tree::FileAttributes;
use crate::host::facts::booted;
use crate::host::fs::tree_observation;
use crate::host::systemd::service_port::NoServices;
use crate::host::{HostDisk, LockedRoot, Root};
use crate::os::Sysroot;
use crate::transaction::TransactionError;
use crate::transaction::engine::apply::JournaledChange;
use crate::transaction::engine::labels::SelinuxLabels;
use crate::transaction::engine::{apply, labels};
use crate::transaction::plan::error::PlanError;
use crate::transaction::state::agent_files::AgentFiles;
use crate::transaction::state::current::{CurrentState, is_older_than_last_booted};
use crate::transaction::state::error::StateError;
use crate::transaction::state::{interrupted, objects, record};

/// Result of an activation.
#[derive(Debug)]
pub struct ActivationOutcome {
    /// Generation that `/var` now matches.
    pub generation: GenerationId,
    /// False if `/var` matched already.
    pub changed: bool,
}

/// Plan that makes `/var` match a generation.
#[derive(Debug)]
pub struct ActivationPlan {
    /// Generation to activate.
    pub generation: GenerationId,
    /// Changes to paths, in the order in which they are made.
    pub steps: Vec<PlanStep>,
    /// SELinux labels of the paths that the steps create.
    pub labels: SelinuxLabels,
}

impl ActivationPlan {
    /// Wrap the plan as a journaled change of `/var`.
    #[must_use]
    pub fn change<'a>(&'a self, boot_id: &'a BootId) -> JournaledChange<'a> {
        JournaledChange {
            current: None,
            target: Some(&self.generation),
            boot_id,
            scope: JournalScope::Var,
            steps: &self.steps,
            labels: &self.labels,
            actions: &[],
        }
    }
}

/// Activate the generation recorded in the `/etc` of `root`: put its files outside `/etc` in place.
/// Recovers an interrupted change first.
pub fn activate(root: &LockedRoot<'_>) -> Result<ActivationOutcome, TransactionError> {
    interrupted::recover_first(root)?;
    activate_recovered(root)
}

/// Activate the generation in the `/etc` of `root`, in which no interrupted change is open.
pub(crate) fn activate_recovered(root: &LockedRoot<'_>) -> Result<ActivationOutcome, TransactionError> {
    let wanted = files_outside_etc(root)?;
    ensure_link_targets(root, &wanted.managed)?;
    let activation = decide_on(root, wanted)?;
    apply::apply(root.as_root(), &NoServices, activation.change(root.boot_id()))?;
    Ok(ActivationOutcome { generation: activation.generation, changed: !activation.steps.is_empty() })
}

/// Activate the default deployment of a sysroot that is not running.
pub fn activate_next(os: &mut dyn Sysroot, place: &Path) -> Result<ActivationOutcome, TransactionError> {
    let Some(next) = os.deployments()?.into_iter().next() else {
        return Err(StateError::NoDeployment(place.display().to_string()).into());
    };
    let root = booted::open_deployment(place, &next.id)?;
    let record = CurrentState::load_record(&root)?;
    if !record.is_some_and(|record| record.names(&next.id)) {
        return Err(StateError::ForeignDeployment(next.id.to_string()).into());
    }
    activate(&LockedRoot::lock(&root)?)
}

/// Create the directories that symbolic links of the image point to, such as `/var/usrlocal`: on a first
/// boot they do not exist yet, and managed files below them need them.
fn ensure_link_targets(root: &Root, desired: &ManagedFiles) -> Result<(), TransactionError> {
    let above: BTreeSet<ManagedPath> = desired.entries.keys().flat_map(ManagedPath::ancestors).collect();
    for link in above {
        let Some(target) = root.link_target(&link)?.and_then(|target| link.leads_to(&target)) else {
            continue;
        };
        for directory in target.ancestors().collect::<Vec<_>>().into_iter().rev().chain([target]) {
            if root.status(&directory)?.is_none() {
                root.make_directory(&directory, FileAttributes { mode: 0o755, uid: 0, gid: 0 }, None)?;
                root.sync(&[Some(directory.clone()), directory.parent()])?;
            }
        }
    }
    Ok(())
}

/// Managed files outside `/etc` of a generation, with its record and the profile that planned them.
struct FilesOutsideEtc {
    record: GenerationRecord,
    managed: ManagedFiles,
    profile: Profile,
}

/// Load the managed files outside `/etc` of the generation recorded in the `/etc` of `root`.
fn files_outside_etc(root: &Root) -> Result<FilesOutsideEtc, TransactionError> {
    let Some(record) = CurrentState::load_record(root)? else {
        return Err(StateError::NoGeneration(root.path().display().to_string()).into());
    };
    let (managed, profile) = match record.manifest {
        Some(digest) => objects::load_managed(root, digest)?,
        None => (ManagedFiles::default(), record.profile),
    };
    Ok(FilesOutsideEtc { record, managed, profile })
}

/// Plan the activation of `root`, in which no interrupted change is open. Writes nothing.
pub fn plan_activation(root: &Root) -> Result<ActivationPlan, TransactionError> {
    decide_on(root, files_outside_etc(root)?)
}

fn decide_on(
    root: &Root,
    FilesOutsideEtc { record, managed, profile }: FilesOutsideEtc,
) -> Result<ActivationPlan, TransactionError> {
    let current = CurrentState::load(root)?;
    let keeps_trust = is_older_than_last_booted(&record, &current);
    let managed = if keeps_trust { without_trust_material(managed) } else { managed };
    let steps = steps(root, &current, &managed, profile, keeps_trust)?;
    let mut active = record::active_manifest(&record, &steps, last_booted(&record, current.active.as_ref()));
    if let (true, Some(before)) = (keeps_trust, &current.active) {
        retain_trust_material(root, &mut active, before)?;
    }
    let mut files = AgentFiles::after(root, steps.preserve);
    files.extend(steps.steps);
    objects::write_active_manifest(&mut files, current.active.as_ref(), &active)?;
    let labels = labels::labels_of_steps(root, &files.steps, &current.prior_changes().labels)?;
    Ok(ActivationPlan { generation: record.generation, steps: files.steps, labels })
}

/// Drop trust material from the files to activate: an older generation must not bring back revoked keys and
/// CAs.
fn without_trust_material(mut managed: ManagedFiles) -> ManagedFiles {
    managed.entries.retain(|path, _| !carry_forward::is_trust_material(path));
    managed
}

/// Keep the pre-images and created directories of trust material that stays in place in the manifest, so
/// that a later generation can still remove the files and restore the pre-images.
fn retain_trust_material(
    root: &Root,
    active: &mut ActiveManifest,
    before: &ActiveManifest,
) -> Result<(), TransactionError> {
    let Some(manifest) = before.manifest else { return Ok(()) };
    let manifest = objects::load_manifest(root, manifest)?;
    let kept: Vec<&ManagedPath> =
        manifest.entries.keys().filter(|path| carry_forward::is_trust_material(path)).collect();
    let originals = before.originals.iter().filter(|path| carry_forward::is_trust_material(path));
    let above = |directory: &&ManagedPath| kept.iter().any(|path| path.is_within(directory.as_str()));
    let directories = before.created_directories.iter().filter(above);
    for (prior, more) in [
        (&mut active.originals, originals.cloned().collect::<Vec<_>>()),
        (&mut active.created_directories, directories.cloned().collect()),
    ] {
        prior.extend(more);
        prior.sort();
        prior.dedup();
    }
    Ok(())
}

/// Return the identity of the deployment that `record` belongs to, for the active manifest. A plain tree
/// has no deployment and keeps the identity from `before`.
fn last_booted(record: &GenerationRecord, before: Option<&ActiveManifest>) -> Option<LastBooted> {
    let before = before.and_then(|active| active.last_booted.clone());
    let Some(bound) = &record.deployment else { return before };
    let latest = before.map_or(0, |before| before.latest).max(record.sequence);
    Some(LastBooted { deployment: bound.id(), generation: record.generation.clone(), latest })
}

fn steps(
    root: &Root,
    current: &CurrentState,
    desired: &ManagedFiles,
    profile: Profile,
    keeps_trust: bool,
) -> Result<steps::PlannedSteps, TransactionError> {
    let managed = match current.active.as_ref().and_then(|active| active.manifest) {
        // The removal of files needs their paths only, so no contents are loaded.
        Some(active) => objects::load_manifest(root, active)?.managed(&BTreeMap::new()),
        None => ManagedFiles::default(),
    };
    let managed = if keeps_trust { without_trust_material(managed) } else { managed };
    let prior = current.prior_changes().outside("/etc");
    let seen = tree_observation::look(root, [&managed, &managed], desired, &prior)?;
    let steps = steps::compute(StepInputs {
        current: &managed,
        desired,
        observed: &seen.observed,
        below: &seen.below,
        aliases: &seen.aliases,
        vendor: &BTreeMap::new(),
        links: &LinkChange::default(),
        prior: &prior,
        profile,
    });
    let obstacles: Vec<String> =
        steps.obstructions.iter().map(|obstruction| obstruction.reason.clone()).collect();
    if obstacles.is_empty() { Ok(steps) } else { Err(PlanError::Obstructed(obstacles).into()) }
}
