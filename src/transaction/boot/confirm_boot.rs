//! Boot check: run health checks until they pass, then confirm the booted generation; or, after the
//! timeout, roll back to the deployment that it was staged on.

use std::time::Duration;

use super::automatic_rollback::RollbackResult;
use super::{automatic_rollback, health_checks};
use crate::core::config::settings::boot_check::HealthPolicy;
use crate::core::history::{HistoryEvent, HistoryNote};
use crate::core::state::blocked::BlockReason;
use crate::core::state::boot_check::{
    CheckResult, HealthPhase, HealthReport, RollbackDisabled, failed_checks,
};
use crate::core::state::booted_state;
use crate::core::state::booted_state::PendingOutcome;
use crate::core::state::pending::unconfirmed_mark::UnconfirmedMark;
use crate::core::state::pending::{PendingEntry, PendingGeneration};
use crate::core::state::record::GenerationRecord;
use crate::core::values::causes::chain;
use crate::core::values::identifiers::GenerationId;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::ENCAPSULATED;
use crate::host::RunningHost;
use crate::os::protocol::SysrootAccess;
use crate::transaction::history;
use crate::transaction::state::boot_check_time::{boot_check_policy, has_etcd, max_boots};
use crate::transaction::state::current::CurrentState;
use crate::transaction::state::unconfirmed_mark::{MarkState, mark_state};
use crate::transaction::state::{interrupted, login_message, pending, status_files, unconfirmed_mark};
use crate::transaction::update::clean_up;
use crate::transaction::update::stage::rollback_pin;
use crate::transaction::{SysrootOpener, TransactionError};

/// Interval between health checks, and between retries while the host is locked.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Longest wait for another program that holds a needed lock, once the result of the boot check is known. The
/// unit is then restarted, and the boot check repeated.
const BUSY_TIMEOUT: Duration = Duration::from_secs(120);

/// Result of the boot check.
#[derive(Debug)]
pub enum BootCheckOutcome {
    /// No configuration was ever applied to this host.
    Unmanaged,
    /// The booted generation was confirmed before; the report holds its current health.
    AlreadyConfirmed(HealthReport),
    /// The unconfirmed generation passed and is now confirmed; data of older generations is removed.
    Confirmed(GenerationId),
    /// The unconfirmed generation failed and is blocked. The previous deployment is the default one again;
    /// the caller reboots.
    RolledBack {
        generation: GenerationId,
        /// Failed checks.
        reason: String,
    },
    /// The unconfirmed generation failed, but automatic rollback is not allowed.
    KeptUnhealthy {
        generation: GenerationId,
        /// Failed checks.
        reason: String,
        /// Reason that forbids a rollback.
        because: RollbackDisabled,
    },
}

/// Run the boot check, and confirm or roll back an unconfirmed generation. Publishes a health report in
/// either case. `say` receives the failing checks each time that they change.
pub fn check_boot(
    host: &RunningHost,
    os: SysrootOpener<'_>,
    say: &mut dyn FnMut(&str),
) -> Result<BootCheckOutcome, TransactionError> {
    let root = &host.root;
    let found = load_pending(host);
    let generation = booted_generation(host, found.as_ref());
    // A first boot that completes without a reboot writes its record only at its end, so the boot check
    // waits for it.
    if generation.is_none() && !root.exists(&ManagedPath::constant(ENCAPSULATED))? {
        return Ok(BootCheckOutcome::Unmanaged);
    }
    let policy = boot_check_policy(root);
    let unconfirmed = match (pending_outcome(host, found.as_ref()), found) {
        (PendingOutcome::RollBack(reason), Some(pending)) => {
            match automatic_rollback::roll_back(os, host, &pending, reason.as_str().into())? {
                RollbackResult::BootsNext => {
                    return Ok(BootCheckOutcome::RolledBack {
                        generation: pending.generation().to_owned(),
                        reason,
                    });
                }
                RollbackResult::DeploymentGone => Some(pending),
            }
        }
        (PendingOutcome::Booted, found) => found,
        _ => None,
    };
    let mark = unconfirmed_mark::load_mark(root, &host.booted.deployment);
    let mut findings = wait_until_healthy(host, unconfirmed.as_ref(), mark.as_ref(), &policy, os, say)?;
    // A rejection is never taken back, even if all checks pass after it.
    let rejected = unconfirmed.as_ref().and_then(|pending| pending.rejected.clone());
    findings.extend(rejected.map(|reason| CheckResult::failed("rollback", reason)));
    let Some(generation) = booted_generation(host, unconfirmed.as_ref()) else {
        return Ok(BootCheckOutcome::Unmanaged);
    };
    let failed = failed_checks(&findings);
    let phase = if failed.is_some() { HealthPhase::Unhealthy } else { HealthPhase::Healthy };
    let report = HealthReport { generation: Some(generation.clone()), phase, findings };
    status_files::BOOT_CHECK.publish(root, &report);
    login_message::refresh(root);
    match (unconfirmed, failed) {
        (None, _) => decide_by_mark(host, &policy, mark.as_ref(), os, report),
        (Some(pending), None) => {
            retry_while_busy(host, &mut || confirm(host, &pending))?;
            clean_up(host, os);
            Ok(BootCheckOutcome::Confirmed(generation))
        }
        (Some(pending), Some(failed)) => {
            let reason = boot_check_failure(&policy, &failed);
            let reason = BlockReason { sentence: &reason, findings: &report.findings };
            retry_while_busy(host, &mut || roll_back(host, &policy, &pending, os, reason))
        }
    }
}

/// Load the pending record, or compose that of an unconfirmed generation: the activation writes a lost one again, unless
/// `/var` is missing. A generation that is not pending is decided by nothing here.
fn load_pending(host: &RunningHost) -> Option<PendingGeneration> {
    let found = pending::load(&host.root).unwrap_or_else(|error| {
        log::warn!("{}", chain(&error));
        None
    });
    found.or_else(|| pending::recompose(&host.root, &host.booted.deployment).map(PendingGeneration::new))
}

/// Return the generation in the booted deployment's record. Where the record is missing or cannot be read, it is
/// that of the pending record, if that names the booted deployment: the record check then fails, and the generation
/// is rolled back.
fn booted_generation(host: &RunningHost, pending: Option<&PendingGeneration>) -> Option<GenerationId> {
    let booted = |pending: &&PendingGeneration| pending.is_deployed_as(&host.booted.deployment);
    let pending = pending.filter(booted).map(|pending| pending.generation().to_owned());
    match CurrentState::load_record(&host.root) {
        Ok(record) => record.map(|record| record.generation).or(pending),
        Err(error) => {
            log::warn!("{}", chain(&error));
            Some(pending.unwrap_or_default())
        }
    }
}

/// Decide the outcome of the pending generation. A missing or unreadable record of its deployment counts as complete:
/// the record check judges it.
fn pending_outcome(host: &RunningHost, pending: Option<&PendingGeneration>) -> PendingOutcome {
    let presumed = || {
        let pending = pending.filter(|pending| pending.is_deployed_as(&host.booted.deployment))?;
        let deployment = Some(pending.staged.deployment.clone());
        Some(GenerationRecord { deployment, ..pending.staged.record.clone() })
    };
    let record = CurrentState::load_record(&host.root).unwrap_or_default().or_else(presumed);
    let seen = host.booted.observation(record.as_ref(), pending);
    booted_state::pending_outcome(seen, &host.system.boot_id, max_boots(&host.root, pending))
}

/// Record an orderly shutdown of the host in the pending record of an unconfirmed generation: the boot, which
/// ends before its boot check did, does not count against it.
pub fn record_shutdown(host: &RunningHost) -> Result<(), TransactionError> {
    let boot_id = &host.system.boot_id;
    // A boot check that has a result holds the lock, and writes the record itself.
    let locked = host.lock()?;
    let Some(pending) = pending::load(locked.as_root())? else { return Ok(()) };
    if pending.booted_in.contains(boot_id) && !pending.shut_down_in.contains(boot_id) {
        pending::append_entry(locked.as_root(), &PendingEntry::ShutDown { boot_id: boot_id.clone() })?;
    }
    Ok(())
}

/// Repeat the health checks until they have passed for the configured steady time, or until the timeout.
/// Returns the last results.
fn wait_until_healthy(
    host: &RunningHost,
    pending: Option<&PendingGeneration>,
    mark: Option<&UnconfirmedMark>,
    policy: &HealthPolicy,
    os: SysrootOpener<'_>,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<CheckResult>, TransactionError> {
    let uptime = host.system.uptime;
    let left = || policy.timeout.saturating_sub(host.system.time_since_boot());
    let (mut well_since, mut said) = (None, String::new());
    loop {
        let mut findings = health_checks::quick_checks(policy, pending);
        // A confirmed generation cannot be rolled back: one full run after boot is complete suffices for
        // the report.
        if pending.is_none() && mark.is_none() && findings.first().is_some_and(|boot| boot.ok) {
            findings.extend(health_checks::full_checks(policy, host, os));
            return Ok(findings);
        }
        let since = failed_checks(&findings).is_none().then(|| well_since.unwrap_or_else(uptime));
        well_since = since;
        if since.is_some_and(|since| uptime().saturating_sub(since) >= policy.steady) {
            findings.extend(health_checks::full_checks(policy, host, os));
            if failed_checks(&findings).is_none() {
                return Ok(findings);
            }
            well_since = None;
        }
        let failed = failed_checks(&findings);
        if left().is_zero() && failed.is_some() {
            return Ok(findings);
        }
        let waits_for = failed.unwrap_or_else(|| {
            format!("all checks pass, and have to stay so for {} seconds", policy.steady.as_secs())
        });
        if waits_for != said {
            say(&waits_for);
            let generation = booted_generation(host, pending);
            status_files::BOOT_CHECK
                .publish(&host.root, &HealthReport { generation, phase: HealthPhase::Checking, findings });
            said = waits_for;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Retry `act` while another program holds a lock.
fn retry_while_busy<T>(
    host: &RunningHost,
    act: &mut dyn FnMut() -> Result<T, TransactionError>,
) -> Result<T, TransactionError> {
    let uptime = host.system.uptime;
    let end = uptime() + BUSY_TIMEOUT;
    loop {
        match act() {
            Err(error) if error.is_busy() && uptime() < end => std::thread::sleep(POLL_INTERVAL),
            acted => return acted,
        }
    }
}

/// Confirm the generation. Takes no lock but the agent's own: another program may hold that of the sysroot for
/// as long as it downloads.
fn confirm(host: &RunningHost, pending: &PendingGeneration) -> Result<(), TransactionError> {
    let host = host.lock()?;
    // Another process may have staged another generation in the meantime.
    let now = pending::load_or_set_aside(host.as_root())?;
    if now.is_none_or(|now| now.staged == pending.staged) {
        // In this order: without the pending record, the mark would never be removed.
        unconfirmed_mark::remove_mark(host.as_root())?;
        pending::remove(host.as_root())?;
        history::note(&host, HistoryEvent::Confirmed, HistoryNote::of(&pending.staged.record));
    }
    Ok(())
}

/// Remove data of older generations. Leftovers only occupy space, so a failure is only logged.
fn clean_up(host: &RunningHost, os: SysrootOpener<'_>) {
    let cleaned = os(SysrootAccess::Stage).and_then(|mut os| {
        let host = host.lock()?;
        // A change that was interrupted since the checks has its previous files where the clean-up clears.
        interrupted::recover_first(&host)?;
        rollback_pin::release_unneeded(&mut *os, &host)?;
        clean_up::clean_up(&mut *os, &host);
        Ok(())
    });
    if let Err(error) = cleaned {
        log::warn!("cannot clean up after older generations: {}; the next update tries again", error.chain());
    }
}

/// Roll back a generation that only its mark shows to be unconfirmed, if a check failed; else remove the mark.
fn decide_by_mark(
    host: &RunningHost,
    policy: &HealthPolicy,
    mark: Option<&UnconfirmedMark>,
    os: SysrootOpener<'_>,
    report: HealthReport,
) -> Result<BootCheckOutcome, TransactionError> {
    let failed = failed_checks(&report.findings);
    if let (Some(mark), Some(failed)) = (mark, &failed) {
        return retry_while_busy(host, &mut || roll_back_by_mark(host, policy, mark, os, failed));
    }
    if failed.is_none() && mark_state(&host.root, &host.booted.deployment) == MarkState::Unconfirmed {
        unconfirmed_mark::remove_mark(host.lock()?.as_root())?;
    }
    Ok(BootCheckOutcome::AlreadyConfirmed(report))
}

/// Roll back a generation of a newer release, of which this one can read the mark only.
fn roll_back_by_mark(
    host: &RunningHost,
    policy: &HealthPolicy,
    mark: &UnconfirmedMark,
    os: SysrootOpener<'_>,
    failed: &str,
) -> Result<BootCheckOutcome, TransactionError> {
    let generation = mark.generation.clone();
    let reason = boot_check_failure(policy, failed);
    let allowed = policy.allows_rollback(mark.completes_first_boot, has_etcd(&host.root));
    let result = allowed.map(|()| automatic_rollback::roll_back_to(os, &mark.base));
    rollback_outcome(generation, reason, result)
}

/// Return the outcome of a rollback, or of a generation that may not be rolled back.
fn rollback_outcome(
    generation: GenerationId,
    reason: String,
    result: Result<Result<RollbackResult, TransactionError>, RollbackDisabled>,
) -> Result<BootCheckOutcome, TransactionError> {
    let because = match result {
        Err(because) => because,
        Ok(result) => match result? {
            RollbackResult::BootsNext => return Ok(BootCheckOutcome::RolledBack { generation, reason }),
            RollbackResult::DeploymentGone => RollbackDisabled::DeploymentGone,
        },
    };
    Ok(BootCheckOutcome::KeptUnhealthy { generation, reason, because })
}

fn boot_check_failure(policy: &HealthPolicy, failed: &str) -> String {
    format!("boot check did not pass within {} seconds: {failed}", policy.timeout.as_secs())
}

fn roll_back(
    host: &RunningHost,
    policy: &HealthPolicy,
    pending: &PendingGeneration,
    os: SysrootOpener<'_>,
    reason: BlockReason<'_>,
) -> Result<BootCheckOutcome, TransactionError> {
    let generation = pending.generation().to_owned();
    let allowed = policy.may_roll_back(pending, has_etcd(&host.root));
    let result = allowed.map(|()| automatic_rollback::roll_back(os, host, pending, reason));
    rollback_outcome(generation, reason.sentence.to_owned(), result)
}
