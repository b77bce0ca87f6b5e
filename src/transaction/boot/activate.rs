//! Activation: put a generation's files outside `/etc` in place, by making `/var` match the record in
//! `/etc`, for newer and older generations alike. Needs no network, no D-Bus and no libostree.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::files_outside_etc::{FilesOutsideEtc, ensure_link_targets};
use super::partial_activation::{MAX_ROUNDS, SkippedPaths, failed_path};
use crate::core::config::managed_files::ManagedFiles;
use crate::core::plan::steps;
use crate::core::plan::steps::{LinkChange, PlanStep, PlannedSteps, StepInputs};
use crate::core::state::carry_forward;
use crate::core::state::journal::JournalScope;
use crate::core::state::objects::{ActiveManifest, Manifest, file_entries};
use crate::core::state::record::GenerationRecord;
use crate::core::values::identifiers::{BootId, GenerationId};
use crate::core::values::names::ManagedPath;
use crate::host::facts::awaited_mounts::AwaitedMounts;
use crate::host::facts::booted;
use crate::host::fs::tree_observation;
use crate::host::systemd::service_port::NoServices;
use crate::host::{LockedRoot, Root};
use crate::os::Sysroot;
use crate::transaction::TransactionError;
use crate::transaction::engine::apply::JournaledChange;
use crate::transaction::engine::labels::SelinuxLabels;
use crate::transaction::engine::{apply, labels};
use crate::transaction::plan::error::PlanError;
use crate::transaction::state::agent_files::AgentFiles;
use crate::transaction::state::current::{CurrentState, is_older_than_last_booted};
use crate::transaction::state::error::StateError;
use crate::transaction::state::{boot_check_time, interrupted, objects, record};

/// Treatment of paths that cannot be put in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActivationMode {
    /// Fail without a change. For an unconfirmed generation, whose boot check then fails.
    AllOrNothing,
    /// Leave them out. For a confirmed generation, which serves whatever its disk says.
    AsFarAsPossible,
}

/// Time of an activation within a boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActivationStage {
    /// Before other services: mounts below `/var` may still be missing, and their files wait for them.
    Early,
    /// After all mounts: files below one that is missing are not written beneath it.
    AfterMounts,
    /// On a tree that is not booting: every path is reachable.
    Offline,
}

/// Treatment of the note which deployment booted last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastBootedNote {
    /// The booted deployment takes the place of the one before.
    Replaced,
    /// The deployment before stays noted: its files are still to be carried forward.
    Kept,
}

/// Result of an activation.
#[derive(Debug)]
pub struct ActivationOutcome {
    /// Generation that `/var` now matches.
    pub generation: GenerationId,
    /// False if `/var` matched already.
    pub changed: bool,
    /// Paths and documents that are not as the generation says, each with the reason.
    pub problems: Vec<String>,
    /// Mount points below which files wait for their mount.
    pub awaited: BTreeSet<ManagedPath>,
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
    activate_recovered(root, ActivationMode::AllOrNothing, ActivationStage::Offline, LastBootedNote::Replaced)
}

/// Activate the generation in the `/etc` of `root`, in which no interrupted change is open.
pub(crate) fn activate_recovered(
    root: &LockedRoot<'_>,
    mode: ActivationMode,
    stage: ActivationStage,
    note: LastBootedNote,
) -> Result<ActivationOutcome, TransactionError> {
    if mode == ActivationMode::AllOrNothing {
        objects::set_unreadable_manifest_aside(root)?;
    }
    let mut desired = DesiredActivation::load(root, mode, note)?;
    desired.leave_out_awaited(root, stage)?;
    for _ in 0..MAX_ROUNDS {
        let activated = desired.activate(root);
        match activated {
            Err(error) if desired.leave_out(root, &error) => {}
            Err(error) if mode == ActivationMode::AsFarAsPossible => {
                desired.problems.push(error.chain());
                break;
            }
            Err(error) => return Err(error),
            Ok(changed) => return Ok(desired.into_outcome(changed)),
        }
    }
    Ok(desired.into_outcome(false))
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

/// Plan the activation of `root`, in which no interrupted change is open. Writes nothing.
pub fn plan_activation(root: &Root) -> Result<ActivationPlan, TransactionError> {
    DesiredActivation::load(root, ActivationMode::AllOrNothing, LastBootedNote::Replaced)?.plan(root)
}

/// Generation to activate, and the state of the host that its activation starts from.
struct DesiredActivation {
    mode: ActivationMode,
    record: GenerationRecord,
    current: CurrentState,
    files: FilesOutsideEtc,
    /// Managed files outside `/etc` of the generation that is active now. The removal of files needs their paths
    /// only, so no contents are loaded.
    active: ManagedFiles,
    /// True if the generation is older than the last booted one. Trust material then stays as it is: an older
    /// generation must not bring back revoked keys and CAs.
    keeps_trust: bool,
    note: LastBootedNote,
    skipped: SkippedPaths,
    /// Mount points whose files are left out without being a problem.
    awaited: BTreeSet<ManagedPath>,
    problems: Vec<String>,
}

impl DesiredActivation {
    fn load(root: &Root, mode: ActivationMode, note: LastBootedNote) -> Result<Self, TransactionError> {
        let (current, mut problems) = match mode {
            ActivationMode::AllOrNothing => (CurrentState::load(root)?, Vec::new()),
            ActivationMode::AsFarAsPossible => CurrentState::load_available(root)?,
        };
        let Some(record) = current.record.clone() else {
            return Err(StateError::NoGeneration(root.path().display().to_string()).into());
        };
        let mut files = FilesOutsideEtc::load(root, &record, &current, mode)?;
        problems.append(&mut files.problems);
        let mut active = match current.active.as_ref().and_then(|active| active.manifest) {
            None => ManagedFiles::default(),
            Some(active) if Some(active) == record.manifest => {
                Manifest::of(&files.managed, files.profile).0.managed(&BTreeMap::new())
            }
            Some(active) => match objects::load_manifest(root, active) {
                Ok(manifest) => manifest.managed(&BTreeMap::new()),
                // Its files stay where they are; nothing else knows which they were.
                Err(lost) => {
                    problems.push(format!("files of the generation before are not removed: {lost}"));
                    ManagedFiles::default()
                }
            },
        };
        if let Some(before) = &current.active {
            let without_contents = BTreeMap::new();
            for (path, entry) in file_entries(&before.remaining, &without_contents) {
                active.entries.entry(path).or_insert(entry);
            }
        }
        let keeps_trust = is_older_than_last_booted(&record, &current);
        let skipped = SkippedPaths::default();
        let awaited = BTreeSet::new();
        Ok(Self { mode, record, current, files, active, keeps_trust, note, skipped, awaited, problems })
    }

    /// Put the files in place. Returns false if nothing had to be changed.
    fn activate(&mut self, root: &LockedRoot<'_>) -> Result<bool, TransactionError> {
        ensure_link_targets(root, &self.skipped.without(&self.files.managed), &self.files.labels)?;
        let plan = loop {
            let (obstructed, plan) = self.compose_plan(root)?;
            match plan {
                Some(plan) => break plan,
                None if !obstructed.keys().all(|path| self.may_leave_out(root, path)) => {
                    return Err(PlanError::Obstructed(obstructed.into_values().collect()).into());
                }
                None => {
                    let managed = [&self.active, &self.files.managed];
                    let mut is_any_left_out = false;
                    for (path, reason) in &obstructed {
                        is_any_left_out |= self.skipped.insert(path, reason, managed);
                    }
                    if !is_any_left_out {
                        return Err(PlanError::Obstructed(obstructed.into_values().collect()).into());
                    }
                }
            }
        };
        apply::apply(root.as_root(), &NoServices, plan.change(root.boot_id()))?;
        Ok(!plan.steps.is_empty())
    }

    /// Leave out the files below mounts that are not made yet.
    fn leave_out_awaited(&mut self, root: &Root, stage: ActivationStage) -> Result<(), TransactionError> {
        if stage == ActivationStage::Offline {
            return Ok(());
        }
        let managed: BTreeSet<ManagedPath> =
            self.active.entries.keys().chain(self.files.managed.entries.keys()).cloned().collect();
        if (stage, self.mode) == (ActivationStage::AfterMounts, ActivationMode::AllOrNothing) {
            let limit = boot_check_time::mount_limit(root);
            let awaited = AwaitedMounts::look_until_made(root, &managed, limit)?;
            return match managed.iter().find_map(|path| awaited.obstruction(root, path)) {
                Some(reason) => Err(PlanError::Obstructed(vec![reason]).into()),
                None => Ok(()),
            };
        }
        let awaited = AwaitedMounts::look(root)?;
        for path in managed {
            let Some(point) = awaited.above(root, &path) else { continue };
            match stage {
                ActivationStage::AfterMounts => {
                    self.problems.push(format!("{path} waits for the mount of {point}"));
                }
                _ => drop(self.awaited.insert(point.clone())),
            }
            self.skipped.insert_awaited(path);
        }
        Ok(())
    }

    /// Return true if the activation goes on without `path`: that of a confirmed generation, and also that of an
    /// unconfirmed one where users other than root can write, who must not be able to refuse an update.
    fn may_leave_out(&self, root: &Root, path: &ManagedPath) -> bool {
        self.mode == ActivationMode::AsFarAsPossible || root.is_changed_by_users(path)
    }

    /// Leave out the paths that `error` is about; false if it is about none of them, or they have to be there.
    fn leave_out(&mut self, root: &Root, error: &TransactionError) -> bool {
        failed_path(error).is_some_and(|path| self.may_leave_out(root, &path))
            && self.skipped.insert_failed(error, [&self.active, &self.files.managed])
    }

    fn into_outcome(mut self, changed: bool) -> ActivationOutcome {
        self.problems.extend(self.skipped.reasons());
        let (generation, problems) = (self.record.generation, self.problems);
        ActivationOutcome { generation, changed, problems, awaited: self.awaited }
    }

    fn plan(&self, root: &Root) -> Result<ActivationPlan, TransactionError> {
        let (obstructed, plan) = self.compose_plan(root)?;
        plan.ok_or_else(|| PlanError::Obstructed(obstructed.into_values().collect()).into())
    }

    /// Plan the activation; without a plan where paths are obstructed.
    fn compose_plan(
        &self,
        root: &Root,
    ) -> Result<(BTreeMap<ManagedPath, String>, Option<ActivationPlan>), TransactionError> {
        let mut steps = self.steps(root)?;
        let obstructed: BTreeMap<ManagedPath, String> = std::mem::take(&mut steps.obstructions)
            .into_iter()
            .map(|obstruction| (obstruction.path, obstruction.reason))
            .collect();
        if !obstructed.is_empty() {
            return Ok((obstructed, None));
        }
        let before = self.current.active.as_ref();
        let last = match self.note {
            LastBootedNote::Replaced => record::last_booted(&self.record, before),
            LastBootedNote::Kept => before.and_then(|before| before.last_booted.clone()),
        };
        let mut active = record::active_manifest(&self.record, &steps, last);
        self.skipped.retain_prior(&mut active, &self.current.prior_changes().outside("/etc"));
        let remaining = self.skipped.remaining(&self.active, &self.files.managed);
        active.remaining = Manifest::of(&remaining, self.files.profile).0.entries;
        if let (true, Some(before)) = (self.keeps_trust, before) {
            self.retain_trust_material(&mut active, before);
        }
        let mut files = AgentFiles::after(root, steps.preserve);
        files.extend(steps.steps);
        if self.files.is_rebuilt {
            let FilesOutsideEtc { managed, profile, labels, .. } = &self.files;
            objects::store_objects(&mut files, managed, *profile, labels)?;
        }
        objects::write_active_manifest(&mut files, before, &active)?;
        let mut given = self.current.given_labels();
        given.extend(self.files.labels.clone());
        let labels = labels::labels_of_steps(root, &files.steps, &given)?;
        let generation = self.record.generation.clone();
        Ok((obstructed, Some(ActivationPlan { generation, steps: files.steps, labels })))
    }

    fn steps(&self, root: &Root) -> Result<PlannedSteps, TransactionError> {
        let [current, desired] = [&self.active, &self.files.managed].map(|managed| {
            let managed = self.skipped.without(managed);
            if self.keeps_trust { without_trust_material(managed) } else { managed }
        });
        let mut prior = self.skipped.without_prior(&self.current.prior_changes().outside("/etc"));
        if self.keeps_trust {
            // Otherwise the path, which is in neither set now, would get its pre-image back.
            prior.originals.retain(|path| !carry_forward::is_trust_material(path));
        }
        let seen = tree_observation::look(root, [&current, &current], &desired, &prior)?;
        Ok(steps::compute(StepInputs {
            current: &current,
            desired: &desired,
            observed: &seen.observed,
            below: &seen.below,
            aliases: &seen.aliases,
            vendor: &BTreeMap::new(),
            links: &LinkChange::default(),
            prior: &prior,
            profile: self.files.profile,
        }))
    }

    /// Keep the pre-images and created directories of trust material that stays in place in the manifest, so
    /// that a later generation can still remove the files and restore the pre-images.
    fn retain_trust_material(&self, active: &mut ActiveManifest, before: &ActiveManifest) {
        let kept: Vec<&ManagedPath> =
            self.active.entries.keys().filter(|path| carry_forward::is_trust_material(path)).collect();
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
    }
}

fn without_trust_material(mut managed: ManagedFiles) -> ManagedFiles {
    managed.entries.retain(|path, _| !carry_forward::is_trust_material(path));
    managed
}
