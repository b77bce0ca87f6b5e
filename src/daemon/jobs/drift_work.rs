//! Comparison of the host with its record, and repair of the drift whose policy says so.

use std::collections::BTreeSet;

use crate::core::values::names::ManagedPath;
use crate::daemon::jobs::work_result::{ComparisonFigures, JobFindings};
use crate::host::{RunningHost, SystemdServices};
use crate::os::Sysroot;
use crate::transaction::TransactionError;
use crate::transaction::plan::drift::DriftReport;
use crate::transaction::state::error::StateError;
use crate::transaction::state::interrupted;
use crate::transaction::update::error::UpdateError;
use crate::transaction::update::repair::repair_running;
use crate::transaction::update::sysroot;

/// Compare the host with its record, and repair drifted paths but for those that are `held_back`.
pub(super) fn compare_and_repair(
    os: &mut dyn Sysroot,
    host: &RunningHost,
    held_back: &BTreeSet<ManagedPath>,
    findings: &mut JobFindings,
) -> Result<DriftReport, TransactionError> {
    let mut verified = sysroot::verify_running(os, host)?;
    if !verified.repairable().is_empty() {
        verified = repair_running(os, &host.lock()?, &SystemdServices::system(), held_back)?;
    }
    for drift in &verified.repaired {
        log::warn!("repaired: {drift}");
    }
    for found in &verified.findings {
        if let Some(obstacle) = &found.obstacle {
            log::warn!("not repaired: {}: {obstacle}", found.drift);
        }
    }
    findings.comparison = Some(ComparisonFigures::of(&verified));
    Ok(verified)
}

/// Refuse an update of a host with drift that is not repaired: the update would lose local changes of managed files.
pub(super) fn ensure_no_drift(
    os: &mut dyn Sysroot,
    host: &RunningHost,
    held_back: &BTreeSet<ManagedPath>,
    findings: &mut JobFindings,
) -> Result<(), TransactionError> {
    // A preparation that was cancelled may have ended in the middle of a repair.
    interrupted::recover_first(&*host.lock()?)?;
    let compared = compare_and_repair(os, host, held_back, findings).or_else(|error| match error {
        TransactionError::State(_) => Err(error),
        // A repair that fails keeps the update away only if the remaining drift does.
        error => {
            log::warn!("drift is not repaired: {}", error.chain());
            sysroot::verify_running(os, host)
        }
    });
    match compared {
        Ok(verified) if !verified.undone_by_update().is_empty() => {
            Err(UpdateError::LocalChanges(verified.undone_by_update()).into())
        }
        // No generation yet, or a foreign deployment: no record to compare with. Settings that cannot be read may be
        // mended by the update; the plan of it refuses them otherwise.
        Ok(_)
        | Err(TransactionError::State(
            StateError::NoGeneration(_) | StateError::ForeignDeployment(_) | StateError::Settings(_),
        )) => Ok(()),
        Err(error) => Err(error),
    }
}
