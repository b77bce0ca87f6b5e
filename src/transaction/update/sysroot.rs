//! Deployments of a sysroot: state, recovery and drift comparison.

use std::collections::BTreeMap;
use std::path::Path;

use crate::core::history::history_log::HistoryLog;
use crate::core::plan::drift::{Drift, DriftDifference};
use crate::core::plan::reconcile;
use crate::core::state::journal::Journal;
use crate::core::state::record::GenerationRecord;
use crate::core::values::causes::chain;
use crate::core::values::kernel_arguments::KernelArguments;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::RECORD;
use crate::core::values::tree::DriftKind;
use crate::host::facts::booted::{BootedDeployment, open_deployment};
use crate::host::facts::tree_facts::TreeScope;
use crate::host::{LockedRoot, Root, RunningHost};
use crate::os::{Deployment, DeploymentId, Sysroot};
use crate::transaction::TransactionError;
use crate::transaction::engine::recover;
use crate::transaction::engine::recover::{RecoveryError, RecoveryOutcome};
use crate::transaction::history;
use crate::transaction::plan::drift;
use crate::transaction::plan::drift::DriftReport;
use crate::transaction::state::current::CurrentState;
use crate::transaction::state::error::StateError;
use crate::transaction::state::{current, interrupted};

/// Deployment with the record in its `/etc`.
#[derive(Debug)]
pub struct DeploymentState {
    pub deployment: Deployment,
    /// Record; absent if no generation was ever merged into the deployment.
    pub record: Option<GenerationRecord>,
    /// True if the record names this deployment. libostree's merge copies records into foreign deployments
    /// as well.
    pub record_matches: bool,
}

/// Return the open change in the default deployment's `/var`, and true if a process is still working on it.
pub fn open_change(
    sysroot: &Path,
    states: &[DeploymentState],
) -> Result<Option<(Journal, bool)>, TransactionError> {
    let next = states.first().map(|state| open_deployment(sysroot, &state.deployment.id)).transpose()?;
    next.map_or(Ok(None), |root| interrupted::open_change(&root))
}

/// Recover interrupted changes in the `/var` of each stateroot and in its deployments' `/etc`. Writes
/// nothing if there are none.
pub fn recover(os: &mut dyn Sysroot, sysroot: &Path) -> Result<RecoveryOutcome, TransactionError> {
    let mut deployments: BTreeMap<String, Vec<DeploymentId>> = BTreeMap::new();
    for deployment in os.deployments()? {
        deployments.entry(deployment.id.stateroot.clone()).or_default().push(deployment.id);
    }
    let mut recovered = RecoveryOutcome::Nothing;
    for ids in deployments.into_values() {
        let roots = ids.iter().map(|id| open_deployment(sysroot, id)).collect::<Result<Vec<_>, _>>()?;
        if let Some(root) = roots.first()
            && recover::is_needed(root)?
        {
            let lock = LockedRoot::lock(root)?;
            recovered = recover_one_of(&lock, &roots)?;
        }
    }
    Ok(recovered)
}

/// Recover the open change of a stateroot in the deployment that it belongs to, found by record.
fn recover_one_of(lock: &LockedRoot<'_>, deployments: &[Root]) -> Result<RecoveryOutcome, TransactionError> {
    let mut elsewhere = Ok(RecoveryOutcome::Nothing);
    for root in deployments {
        match interrupted::recover(&lock.beside(root)) {
            Err(TransactionError::Recovery(error @ RecoveryError::OtherDeployment { .. })) => {
                elsewhere = Err(error.into());
            }
            recovered => return recovered,
        }
    }
    elsewhere
}

/// List all deployments in boot order, each with its record.
pub fn deployment_states(
    os: &mut dyn Sysroot,
    sysroot: &Path,
) -> Result<Vec<DeploymentState>, TransactionError> {
    os.deployments()?.into_iter().map(|deployment| deployment_state(sysroot, deployment)).collect()
}

/// Read the record of a deployment.
pub(crate) fn deployment_state(
    sysroot: &Path,
    deployment: Deployment,
) -> Result<DeploymentState, TransactionError> {
    let root = open_deployment(sysroot, &deployment.id)?;
    // One unreadable record must not hide the other deployments.
    let record = CurrentState::load_record(&root).unwrap_or_else(|error| {
        log::warn!("deployment {}: {}", deployment.id, chain(&error));
        None
    });
    let record_matches = record.as_ref().is_some_and(|record| record.names(&deployment.id));
    Ok(DeploymentState { deployment, record, record_matches })
}

/// Load the history in the `/var` of the default deployment; empty without a deployment.
pub fn history(os: &mut dyn Sysroot, sysroot: &Path) -> Result<HistoryLog, TransactionError> {
    let Some(next) = os.deployments()?.into_iter().next() else { return Ok(HistoryLog::default()) };
    Ok(history::load(&open_deployment(sysroot, &next.id)?)?)
}

/// Find drift of the default deployment: its `/etc` and its boot entry. Return its root directory as well.
pub fn verify(os: &mut dyn Sysroot, sysroot: &Path) -> Result<(DriftReport, Root), TransactionError> {
    let place = || sysroot.display().to_string();
    let Some(next) = os.deployments()?.into_iter().next() else {
        return Err(StateError::NoDeployment(place()).into());
    };
    let root = open_deployment(sysroot, &next.id)?;
    let mut verified = drift::verify(&root, TreeScope::Etc)?;
    if !verified.record.names(&next.id) {
        return Err(StateError::ForeignDeployment(next.id.to_string()).into());
    }
    if let Some(drift) = drift_of_boot_entry(&verified.record, &next, None) {
        verified.add(&root, drift);
    }
    Ok((verified, root))
}

/// Return true for the booted deployment. Until `ostree-boot-complete.service` has run after a soft reboot, libostree
/// takes the one before for booted.
#[must_use]
pub fn is_booted(deployment: &Deployment, booted: &BootedDeployment) -> bool {
    !deployment.staged && deployment.id == booted.deployment
}

/// Find the booted deployment.
pub(crate) fn booted_deployment(
    os: &mut dyn Sysroot,
    host: &RunningHost,
) -> Result<Option<Deployment>, TransactionError> {
    Ok(os.deployments()?.into_iter().find(|found| is_booted(found, &host.booted)))
}

/// Find drift of the booted deployment: all managed paths, its boot entry, and the arguments that it was booted with.
/// Those that the kernel keeps since before a soft reboot are no drift.
pub fn verify_running(os: &mut dyn Sysroot, host: &RunningHost) -> Result<DriftReport, TransactionError> {
    let root = &host.root;
    let (mut verified, state) = drift::verify_state(root, TreeScope::Everything)?;
    if current::is_older_than_last_booted(&verified.record, &state) {
        verified.ignore_trust_material();
    }
    let Some(running) = booted_deployment(os, host)? else {
        return Err(StateError::NoDeployment("/".to_owned()).into());
    };
    if !verified.record.names(&running.id) {
        return Err(StateError::ForeignDeployment(running.id.to_string()).into());
    }
    // The bootloader can pass other arguments than the boot entry lists.
    if let Some(drift) = drift_of_boot_entry(&verified.record, &running, host.booted.entry.as_ref()) {
        verified.add(root, drift);
    }
    let wanted = state.host().is_some_and(|host| host.os.fips);
    if let Some(mode) = host.system.fips_mode
        && reconcile::refuse_fips(mode, wanted, verified.record.profile).is_some()
    {
        verified.add(root, Drift::of_fips_mode(mode));
    }
    verified.skew = host.booted.skew(&host.system.kernel_arguments);
    Ok(verified)
}

/// Find drift of the boot entry of `deployment`, and of the arguments that it was booted with, from its record.
fn drift_of_boot_entry(
    record: &GenerationRecord,
    deployment: &Deployment,
    booted_with: Option<&KernelArguments>,
) -> Option<Drift> {
    // The boot entry of a deployment that only had live updates contains no generation argument.
    if let Some(found) = deployment.generation().filter(|found| record.generation != *found) {
        let name = |generation: &dyn std::fmt::Display| format!("generation {generation}");
        return Some(Drift {
            path: ManagedPath::constant(RECORD),
            kind: DriftKind::KernelArguments,
            difference: Some(DriftDifference::new(name(&record.generation), name(&found))),
        });
    }
    let recorded = &record.deployment.as_ref()?.kernel_arguments;
    let entries = std::iter::once(&deployment.kernel_arguments).chain(booted_with);
    let mut missing = entries.map(|arguments| arguments.missing(recorded));
    missing.find(|missing| !missing.is_empty()).map(|missing| Drift::of_boot_entry(&missing))
}
