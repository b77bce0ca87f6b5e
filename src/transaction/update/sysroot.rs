//! A sysroot as it stands: its deployments, their generations, and going back to an earlier one.

use crate::host::facts::booted::open_deployment;
use crate::transaction::state::current;
use crate::transaction::state::interrupted;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::core::plan::Drift;
use crate::core::state::journal::Journal;
use crate::core::state::record::GenerationRecord;
use crate::core::values::kernel_arguments;
use crate::core::values::kernel_arguments::KernelArgument;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::{GENERATION_ARGUMENT, RECORD};
use crate::core::values::tree::DriftKind;
use crate::host::Root;
use crate::host::facts::tree_facts::TreeScope;
use crate::host::facts::{boot, booted};
use crate::host::fs::lock::HostLock;
use crate::os::{Deployment, DeploymentId, Sysroot};

use crate::transaction::TransactionError;
use crate::transaction::engine::apply;
use crate::transaction::engine::labels::SelinuxLabels;
use crate::transaction::engine::recover;
use crate::transaction::engine::recover::{RecoveryError, RecoveryOutcome};
use crate::transaction::plan::drift::DriftReport;
use crate::transaction::state::current::CurrentState;
use crate::transaction::state::{objects, pending};

/// A deployment and the record found in it.
#[derive(Debug)]
pub struct DeploymentState {
    /// The deployment.
    pub deployment: Deployment,
    /// The record; absent where no generation of ours was ever merged into it.
    pub record: Option<GenerationRecord>,
    /// Whether the record names this deployment. libostree's merge carries records into
    /// deployments that others make.
    pub record_matches: bool,
}

/// The change in the `/var` of what boots next that is not settled, and whether somebody is at work
/// on it.
pub fn open_change(
    sysroot: &Path,
    standings: &[DeploymentState],
) -> Result<Option<(Journal, bool)>, TransactionError> {
    let next =
        standings.first().map(|standing| open_deployment(sysroot, &standing.deployment.id)).transpose()?;
    next.map_or(Ok(None), |root| interrupted::open_change(&root))
}

/// Settles what an interrupted run left in the `/var` of each stateroot, and the live change that
/// one of its deployments was in the middle of. Where nothing is left, nothing is touched.
pub fn recover(os: &mut dyn Sysroot, sysroot: &Path) -> Result<RecoveryOutcome, TransactionError> {
    let mut deployments: BTreeMap<String, Vec<DeploymentId>> = BTreeMap::new();
    for deployment in os.deployments()? {
        deployments.entry(deployment.id.stateroot.clone()).or_default().push(deployment.id);
    }
    let mut settled = RecoveryOutcome::Nothing;
    for ids in deployments.into_values() {
        let roots = ids.iter().map(|id| open_deployment(sysroot, id)).collect::<Result<Vec<_>, _>>()?;
        if let Some(root) = roots.first()
            && recover::is_needed(root)?
        {
            let _lock = HostLock::take(root)?;
            settled = recover_one_of(&roots)?;
        }
    }
    Ok(settled)
}

/// An open change is about one of the deployments; which, their records tell.
fn recover_one_of(deployments: &[Root]) -> Result<RecoveryOutcome, TransactionError> {
    let boot_id = boot::boot_id();
    let mut elsewhere = Ok(RecoveryOutcome::Nothing);
    for root in deployments {
        match interrupted::recover_open(root, &boot_id) {
            Err(TransactionError::Recovery(error @ RecoveryError::OtherDeployment { .. })) => {
                elsewhere = Err(error.into());
            }
            settled => return settled,
        }
    }
    elsewhere
}

/// Removes from the store what neither a deployment of the stateroot nor a pending generation needs any more.
/// `running` is the root of the system that runs, where that is the sysroot's.
pub(crate) fn prune_objects(
    os: &mut dyn Sysroot,
    sysroot: &Path,
    stateroot: &str,
    running: Option<&Root>,
) -> Result<(), TransactionError> {
    let mut live = BTreeSet::new();
    let mut last = None;
    for deployment in os.deployments()?.into_iter().filter(|other| other.id.stateroot == stateroot) {
        // A staged one has no record yet: it is pending.
        let root = open_deployment(sysroot, &deployment.id)?;
        live.extend(CurrentState::load_record(&root)?.and_then(|record| record.manifest));
        last = Some(root);
    }
    let Some(root) = running.or(last.as_ref()) else { return Ok(()) };
    live.extend(objects::load_active(root)?.and_then(|active| active.manifest));
    live.extend(pending::load(root)?.and_then(|pending| pending.intent.record.manifest));
    let live = objects::load_referenced(root, live)?;
    let garbage = objects::prune(root, &live)?;
    Ok(apply::write_to_unused(root, &garbage, &SelinuxLabels::new())?)
}

/// All deployments in boot order, each with its record.
pub fn deployment_states(
    os: &mut dyn Sysroot,
    sysroot: &Path,
) -> Result<Vec<DeploymentState>, TransactionError> {
    let standing = |deployment: Deployment| {
        let root = open_deployment(sysroot, &deployment.id)?;
        let record = CurrentState::load(&root)?.record;
        let record_matches = record.as_ref().is_some_and(|record| record.names(&deployment.id));
        Ok(DeploymentState { deployment, record, record_matches })
    };
    os.deployments()?.into_iter().map(standing).collect()
}

/// Compares the deployment that boots next with its record: its `/etc` and its boot entry.
pub fn verify(os: &mut dyn Sysroot, sysroot: &Path) -> Result<DriftReport, TransactionError> {
    let place = || sysroot.display().to_string();
    let Some(next) = os.deployments()?.into_iter().next() else {
        return Err(TransactionError::NoDeployment(place()));
    };
    let root = open_deployment(sysroot, &next.id)?;
    let mut verified = crate::transaction::plan::drift::verify(&root, TreeScope::Etc)?;
    if !verified.record.names(&next.id) {
        return Err(TransactionError::ForeignDeployment(next.id.to_string()));
    }
    verify_boot_entry(&mut verified, &next);
    Ok(verified)
}

/// Compares the deployment that runs with its record: all that it manages, and its boot entry.
pub fn verify_running(os: &mut dyn Sysroot) -> Result<DriftReport, TransactionError> {
    let root = Root::open(Path::new("/"))?;
    let mut verified = crate::transaction::plan::drift::verify(&root, TreeScope::Everything)?;
    if current::is_older_than_last_booted(&verified.record, &CurrentState::load(&root)?) {
        verified.forgive_trust();
    }
    let Some(running) = os.deployments()?.into_iter().find(|deployment| deployment.booted) else {
        return Err(TransactionError::NoDeployment("/".to_owned()));
    };
    if !verified.record.names(&running.id) {
        return Err(TransactionError::ForeignDeployment(running.id.to_string()));
    }
    verify_boot_entry(&mut verified, &running);
    // What the bootloader gave the kernel is not always what its entry says.
    let given = booted::kernel_arguments()?;
    let wanted = verified.record.deployment.iter().flat_map(|bound| &bound.kernel_arguments);
    let wanted: Vec<KernelArgument> = wanted.flat_map(|argument| kernel_arguments::parse(argument)).collect();
    let path = ManagedPath::constant(RECORD);
    let is_known = verified.deviations.iter().any(|found| found.drift.kind == DriftKind::KernelArguments);
    if !is_known && !kernel_arguments::missing(&given, &wanted).is_empty() {
        verified.add(Drift { path, kind: DriftKind::KernelArguments });
    }
    Ok(verified)
}

/// Compares a deployment's boot entry with its record.
fn verify_boot_entry(verified: &mut DriftReport, next: &Deployment) {
    let arguments = |written: &[String]| -> Vec<KernelArgument> {
        written.iter().flat_map(|argument| kernel_arguments::parse(argument)).collect()
    };
    let wanted = verified.record.deployment.iter().flat_map(|bound| arguments(&bound.kernel_arguments));
    let name = format!("{GENERATION_ARGUMENT}{}", verified.record.generation);
    // One that was configured while it ran has no generation's name in its boot entry.
    let argument = |argument: &&String| argument.starts_with(GENERATION_ARGUMENT);
    let is_named = next.kernel_arguments.iter().find(argument).is_none_or(|found| *found == name);
    if !is_named
        || !kernel_arguments::missing(&arguments(&next.kernel_arguments), &wanted.collect::<Vec<_>>())
            .is_empty()
    {
        let path = ManagedPath::constant(RECORD);
        verified.add(Drift { path, kind: DriftKind::KernelArguments });
    }
}

/// Makes the deployment before the default one of its stateroot the default, whole as it is: a
/// sysroot that is not running has no running `/etc` to carry forward.
pub fn roll_back(os: &mut dyn Sysroot, sysroot: &Path) -> Result<(Deployment, Deployment), TransactionError> {
    let deployments = os.deployments()?;
    let Some(default) = deployments.first() else {
        return Err(TransactionError::NoDeployment(sysroot.display().to_string()));
    };
    let stateroot = &default.id.stateroot;
    let previous = deployments.iter().skip(1).find(|other| other.id.stateroot == *stateroot);
    let Some(previous) = previous else {
        return Err(TransactionError::NoPreviousDeployment(stateroot.clone()));
    };
    os.set_default(&previous.id)?;
    Ok((default.clone(), previous.clone()))
}
