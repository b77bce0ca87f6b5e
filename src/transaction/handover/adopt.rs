//! Adoption of a host from the machine-config-daemon (MCD), or from Ignition: the booted deployment becomes a generation,
//! unchanged.

use std::collections::{BTreeMap, BTreeSet};

use super::installation::AgentOrigin;
use super::{HandoverError, ensure_mcd_stopped, installation, shipped};
use crate::core::config::host_config::HostConfig;
use crate::core::config::managed_files;
use crate::core::history::{HistoryEvent, HistoryNote};
use crate::core::plan::drift::repair_plan::RepairPlan;
use crate::core::plan::drift::{Drift, repair_plan};
use crate::core::plan::steps::{PlanStep, PlannedSteps};
use crate::core::plan::{TreePlan, service_actions};
use crate::core::state::journal::JournalScope;
use crate::core::state::mcd_originals;
use crate::core::state::record::GenerationRecord;
use crate::core::values::identifiers::{ConfigName, GenerationId};
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::{CONTENT, CURRENT_IMAGE, DAEMON_ENVIRONMENT};
use crate::core::values::profile::Profile;
use crate::core::values::tree::PathState;
use crate::host::{LockedHost, LockedRoot, Root, ServiceControl};
use crate::os::Sysroot;
use crate::transaction::TransactionError;
use crate::transaction::engine::apply::JournaledChange;
use crate::transaction::engine::labels::SelinuxLabels;
use crate::transaction::engine::{apply, labels, policy_labels};
use crate::transaction::history;
use crate::transaction::plan::adopted_copy;
use crate::transaction::plan::deployment_plan::{DeploymentPlan, plan_deployment_after};
use crate::transaction::plan::target::{TargetSysroot, UpdatePurpose, UpdateTarget};
use crate::transaction::state::agent_files::AgentFiles;
use crate::transaction::state::current::{CurrentState, DecodedConfig};
use crate::transaction::state::decided_change::DecidedChange;
use crate::transaction::state::{interrupted, pending};
use crate::transaction::update::new_deployment::deployment_record;
use crate::transaction::update::{clean_up, stage};

/// Advice for drift on the host.
const WAY_OUT: &str = "restore these paths, or let flameholder restore them: flameholder adopt --repair";

/// Advice for drift that `--repair` cannot repair.
const BY_HAND: &str = "`--repair` cannot restore all of these paths; restore them by hand";

/// Result of an adoption.
#[derive(Debug)]
pub struct AdoptOutcome {
    /// Name of the current config.
    pub config: ConfigName,
    /// Generation that the booted deployment is.
    pub generation: GenerationId,
    /// True if the deployment was a generation already; only the agent was installed or updated.
    pub was_ours: bool,
    /// False if no file had to change.
    pub has_changed: bool,
    /// Drift that was repaired.
    pub repaired: Vec<Drift>,
    /// True if installed units gave way to those of the OS image.
    pub units_gave_way: bool,
}

/// Options of an adoption.
#[derive(Debug)]
pub struct AdoptRequest<'a> {
    pub agent: AgentOrigin<'a>,
    /// Repair drift instead of failing.
    pub repairs: bool,
    /// Content for [`DAEMON_ENVIRONMENT`]; `None` leaves that file alone.
    pub environment: Option<&'a str>,
    /// Config that Ignition applied at the installation; `None` for the one that MCD applied.
    pub installed: Option<DecodedConfig>,
}

/// Make the booted deployment a generation and install the agent, in one transaction. If the OS image contains
/// the agent, an adopted copy gives way to it instead.
pub fn adopt(
    os: &mut dyn Sysroot,
    services: &dyn ServiceControl,
    host: &LockedHost<'_>,
    adoption: AdoptRequest<'_>,
) -> Result<AdoptOutcome, TransactionError> {
    let is_shipped = matches!(adoption.agent, AgentOrigin::Image);
    let adopted = adopt_booted(os, services, host, adoption)?;
    if !adopted.was_ours {
        let note = HistoryNote::of_config(&adopted.config, &adopted.generation);
        let repaired = adopted.repaired.iter().map(|drift| &drift.path);
        history::note(host, HistoryEvent::Adopted, note.with_paths(repaired));
    }
    // Executables without units only occupy space.
    if is_shipped && let Err(error) = clean_up::prune_adopted_copy(os, host) {
        log::warn!(
            "cannot remove the adopted copy of the agent: {}; the next update tries again",
            error.chain()
        );
    }
    Ok(adopted)
}

fn adopt_booted(
    os: &mut dyn Sysroot,
    services: &dyn ServiceControl,
    host: &LockedHost<'_>,
    adoption: AdoptRequest<'_>,
) -> Result<AdoptOutcome, TransactionError> {
    interrupted::recover_first(host)?;
    let booted = &host.running.booted;
    let mut current = CurrentState::load(host)?;
    let AdoptRequest { agent, repairs, environment, installed } = adoption;
    let (installing, units_gave_way) = agent_steps(host, agent)?;
    let mut adopting = Adopting { from: None, to: GenerationId::default(), installing, environment };
    let profile = if installed.is_some() { Profile::Native } else { Profile::Mcd };
    // A deployment that is a generation already only gets the agent's new version; MCD and pending updates
    // do not matter for that.
    if let Some(record) = current.record.as_ref().filter(|record| record.names(&booted.deployment)) {
        if installed.is_some() {
            return Err(HandoverError::Managed(record.config.clone()).into());
        }
        let outcome = adopting.update_agent(record, host, os, services)?;
        return Ok(AdoptOutcome { units_gave_way, ..outcome });
    }
    ensure_mcd_stopped()?;
    if let Some(pending) = pending::load(host.as_root())? {
        return Err(HandoverError::Pending(pending.generation().to_owned()).into());
    }
    let applied = match installed {
        Some(installed) => ensure_unchanged_since(installed, current.configuration.take())?,
        None => applied(host, current.configuration.take())?,
    };
    current.configuration = Some(applied.clone());
    let target = UpdateTarget {
        sysroot: TargetSysroot::Running(host.running),
        desired: &applied,
        image: None,
        purpose: UpdatePurpose::Update,
        profile,
        policy: None,
    };
    stage::ensure_none_staged(os, host)?;
    let mut draft = plan_deployment_after(os, target, |_| Ok(current))?;
    draft.ensure_unobstructed()?;
    ensure_update_finished(&draft, target)?;
    let tree = draft.plan.tree.get_or_insert_default();
    let repaired = repair(tree, repairs, &applied.object.name)?;
    adopt_originals(host, &applied.host, &mut tree.steps)?;
    let labels = policy_labels::of_steps(os, host.as_root(), &tree.steps.steps)?;
    let deployed = deployment_record(&draft.base, &draft, None, target);
    // After `flameholder release`, the boot entry still has the generation argument.
    let named = booted.generation.as_ref();
    let deployed = Some(deployed);
    let decided = DecidedChange::of(host, &draft.current, &applied, draft.plan, deployed, named, &labels)?;
    (adopting.from, adopting.to) = (decided.current, decided.generation.clone());
    let has_changed = adopting.carry_out(host, os, services, decided.steps, decided.labels)?;
    let (config, generation) = (applied.object.name, decided.generation);
    Ok(AdoptOutcome { config, generation, was_ours: false, has_changed, repaired, units_gave_way })
}

/// Plan the agent's own files: its installation, or for that of an image the change to its units. Returns true as well if
/// installed units give way.
fn agent_steps(root: &Root, agent: AgentOrigin<'_>) -> Result<(Vec<PlanStep>, bool), TransactionError> {
    match agent {
        AgentOrigin::Copy(version) => Ok((installation::install_steps(root, version)?, false)),
        AgentOrigin::SystemExtension => Ok((installation::extension_steps(root)?, false)),
        AgentOrigin::Image => {
            let steps = adopted_copy::image_unit_steps(root)?;
            let units_give_way = !steps.is_empty();
            Ok((steps, units_give_way))
        }
    }
}

/// Change of an adoption: generations before and after, and the agent's own files.
struct Adopting<'a> {
    from: Option<GenerationId>,
    to: GenerationId,
    installing: Vec<PlanStep>,
    environment: Option<&'a str>,
}

impl Adopting<'_> {
    /// Install the agent's files on a host that is adopted already.
    fn update_agent(
        mut self,
        record: &GenerationRecord,
        root: &LockedRoot<'_>,
        os: &mut dyn Sysroot,
        services: &dyn ServiceControl,
    ) -> Result<AdoptOutcome, TransactionError> {
        let (config, generation) = (record.config.clone(), record.generation.clone());
        (self.from, self.to) = (Some(generation.clone()), generation.clone());
        let has_changed = self.carry_out(root, os, services, Vec::new(), SelinuxLabels::new())?;
        let (repaired, units_gave_way) = (Vec::new(), false);
        Ok(AdoptOutcome { config, generation, was_ours: true, has_changed, repaired, units_gave_way })
    }

    /// Apply the change. The daemon's environment file comes last: the daemon starts once that exists.
    /// Returns true if any file changed.
    fn carry_out(
        self,
        root: &LockedRoot<'_>,
        os: &mut dyn Sysroot,
        services: &dyn ServiceControl,
        steps: Vec<PlanStep>,
        mut labels: SelinuxLabels,
    ) -> Result<bool, TransactionError> {
        let policy = policy_labels::of_steps(os, root.as_root(), &self.installing)?;
        labels.extend(labels::terminated_labels(&policy));
        let actions = service_actions::reload_after(&self.installing);
        let mut files = AgentFiles::after(root, self.installing);
        files.extend(steps);
        if let Some(text) = self.environment {
            files.write(ManagedPath::constant(DAEMON_ENVIRONMENT), text.as_bytes().to_vec(), 0o644)?;
        }
        for (path, label) in labels::labels_of_steps(root.as_root(), &files.steps, &BTreeMap::new())? {
            labels.entry(path).or_insert(label);
        }
        let change = JournaledChange {
            current: self.from.as_ref(),
            target: Some(&self.to),
            boot_id: root.boot_id(),
            scope: JournalScope::Deployment,
            steps: &files.steps,
            labels: &labels,
            actions,
        };
        apply::apply(root.as_root(), services, change)?;
        Ok(!files.steps.is_empty())
    }
}

/// Return the config that MCD applied last. After a first boot, MCD's copy lacks files and units or is
/// missing; then the file of the machine-config-server with the same name, which Ignition applied, takes
/// its place.
fn applied(root: &Root, found: Option<DecodedConfig>) -> Result<DecodedConfig, TransactionError> {
    let read = |path| root.read(&ManagedPath::constant(path), limits::DOCUMENT_BYTES);
    let is_whole = |found: &DecodedConfig| !found.host.files.is_empty() || !found.host.units.is_empty();
    let name = found.as_ref().map(|found| found.object.name.clone());
    let whole = if let Some(found) = found.filter(is_whole) {
        found
    } else {
        let sent = read(CONTENT)?.map(|bytes| DecodedConfig::parse_applied(&bytes)).transpose()?;
        let is_same = |sent: &DecodedConfig| name.as_ref().is_none_or(|name| *name == sent.object.name);
        let sent = sent.filter(|sent| is_whole(sent) && is_same(sent));
        sent.ok_or_else(|| name.map_or(HandoverError::NothingApplied, HandoverError::ConfigIncomplete))?
    };
    let image = read(CURRENT_IMAGE)?.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned());
    Ok(whole.layered(image.filter(|image| !image.is_empty())))
}

/// Return the config of the installation; fail if another one was applied since.
fn ensure_unchanged_since(
    installed: DecodedConfig,
    found: Option<DecodedConfig>,
) -> Result<DecodedConfig, HandoverError> {
    match found {
        None => Ok(installed),
        Some(found) => Err(HandoverError::AppliedSince(found.object.name)),
    }
}

/// Fail while an MCD update is unfinished: a mixed state would be recorded as the current config.
fn ensure_update_finished(draft: &DeploymentPlan, target: UpdateTarget<'_>) -> Result<(), HandoverError> {
    let config = target.desired.object.name.clone();
    if let Some(desired) = &draft.image {
        let runs = draft.base.image.as_ref().map_or_else(|| draft.base.id.to_string(), ToString::to_string);
        return Err(HandoverError::OtherImage { config, desired: desired.to_string(), runs });
    }
    if !draft.packages.is_empty() {
        return Err(HandoverError::OtherPackages(config));
    }
    if draft.kernel_arguments_change {
        let arguments = target.desired.host.os.kernel_arguments.to_string();
        return Err(HandoverError::OtherKernelArguments { config, arguments });
    }
    Ok(())
}

/// Reduce the plan to the steps that repair drift, and return the drift. Adoption changes nothing else.
fn repair(tree: &mut TreePlan, repairs: bool, config: &ConfigName) -> Result<Vec<Drift>, HandoverError> {
    let chosen: BTreeSet<ManagedPath> = tree.drift.iter().map(|drift| drift.path.clone()).collect();
    let RepairPlan { steps, created_directories, obstacles } = repair_plan::plan_repair(tree, &chosen);
    let drift = std::mem::take(&mut tree.drift);
    if !drift.is_empty() && (!repairs || !obstacles.is_empty()) {
        let way_out = if repairs { BY_HAND } else { WAY_OUT };
        return Err(HandoverError::Drifted { config: config.to_owned(), drift, way_out });
    }
    tree.steps = PlannedSteps { steps, created_directories, ..PlannedSteps::default() };
    Ok(drift)
}

/// Turn MCD's copies into our pre-images. A copy equal to the shipped file is not needed: `/usr/etc` still
/// has it.
fn adopt_originals(root: &Root, host: &HostConfig, steps: &mut PlannedSteps) -> Result<(), TransactionError> {
    let mut files = AgentFiles::after(root, std::mem::take(&mut steps.preserve));
    for path in managed_files::written_paths(host) {
        let copy = mcd_originals::orig_copy_of(&path);
        let kept = root.path_state(&copy)?;
        let is_leaf = matches!(kept, PathState::File { .. } | PathState::Symlink { .. });
        let shipped = shipped(&path).map(|shipped| root.path_state(&shipped)).transpose()?;
        if is_leaf
            && !shipped.is_some_and(|shipped| is_alike(&shipped, &kept))
            && steps.originals.insert(path.clone())
        {
            let original = GenerationRecord::original_of(&path);
            files.make_parents(&original)?;
            files.extend([PlanStep::Preserve { path: copy, original }]);
        }
    }
    steps.preserve = files.steps;
    Ok(())
}

fn is_alike(one: &PathState, other: &PathState) -> bool {
    match (one, other) {
        (
            PathState::File { attributes, digest, .. },
            PathState::File { attributes: mode, digest: content, .. },
        ) => (attributes, digest) == (mode, content),
        (PathState::Symlink { target, owner, .. }, PathState::Symlink { target: leads, owner: of, .. }) => {
            (target, owner) == (leads, of)
        }
        _ => false,
    }
}
