//! Boot check: run health checks until they pass, then confirm the booted generation; or, after the
//! timeout, roll back to the deployment that it was staged on.

use std::path::Path;
use std::time::Duration;

use super::{early_boot, health_checks};
use crate::core::config::settings::boot_check::HealthPolicy;
use crate::core::plan::first_boot::ENCAPSULATED;
use crate::core::state::boot_check::{
    CheckResult, HealthPhase, HealthReport, RollbackDisabled, failed_checks,
};
use crate::core::state::booted_state;
use crate::core::state::booted_state::PendingOutcome;
use crate::core::state::pending::PendingGeneration;
use crate::core::state::record::GenerationRecord;
use crate::core::values::identifiers::GenerationId;
use crate::core::values::names::ManagedPath;
use crate::host::RunningHost;
use crate::host::facts::booted::SYSROOT;
use crate::os::protocol::SysrootAccess;
use crate::transaction::boot::error::BootError;
use crate::transaction::state::boot_check_time::{boot_check_policy, has_etcd, max_boots};
use crate::transaction::state::current::CurrentState;
use crate::transaction::state::{login_message, pending, status_files, unconfirmed_mark};
use crate::transaction::update::sysroot;
use crate::transaction::{SysrootOpener, TransactionError};

/// Interval between health checks, and between retries while the host is locked.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Longest wait for another program that holds the sysroot or host lock, once the result of the boot check
/// is known.
const BUSY_TIMEOUT: Duration = Duration::from_secs(120);

/// Result of the boot check.
#[derive(Debug)]
pub enum BootCheckOutcome {
    /// No configuration was ever applied to this host.
    Unmanaged,
    /// The booted generation was confirmed before; the report holds its current health.
    AlreadyConfirmed(HealthReport),
    /// The unconfirmed generation passed and is now confirmed; data of older generations is removed.
    Confirmed(Box<GenerationRecord>),
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
    let record = CurrentState::load_record(root)?;
    // A first boot that completes without a reboot writes its record only at its end, so the boot check
    // waits for it.
    if record.is_none() && !root.exists(&ManagedPath::constant(ENCAPSULATED))? {
        return Ok(BootCheckOutcome::Unmanaged);
    }
    let found = pending::load(root)?;
    let most = max_boots(root, found.as_ref());
    let outcome = booted_state::pending_outcome(
        host.booted.observation(record.as_ref(), found.as_ref()),
        &host.system.boot_id,
        most,
    );
    let unconfirmed = found.filter(|_| outcome == PendingOutcome::Booted);
    let policy = boot_check_policy(root);
    let findings = wait_until_healthy(host, record.as_ref(), unconfirmed.as_ref(), &policy, os, say)?;
    let Some(record) = CurrentState::load_record(root)? else { return Ok(BootCheckOutcome::Unmanaged) };
    let failed = failed_checks(&findings);
    let phase = if failed.is_some() { HealthPhase::Unhealthy } else { HealthPhase::Healthy };
    let report = HealthReport { generation: Some(record.generation.clone()), phase, findings };
    status_files::BOOT_CHECK.publish(root, &report);
    login_message::refresh(root);
    match (unconfirmed, failed) {
        (None, _) => Ok(BootCheckOutcome::AlreadyConfirmed(report)),
        (Some(pending), None) => retry_while_busy(host, &mut || confirm(host, &pending, os, &record)),
        (Some(pending), Some(failed)) => {
            retry_while_busy(host, &mut || roll_back(host, &policy, &pending, os, &failed))
        }
    }
}

/// Repeat the health checks until they have passed for the configured steady time, or until the timeout.
/// Returns the last results.
fn wait_until_healthy(
    host: &RunningHost,
    record: Option<&GenerationRecord>,
    pending: Option<&PendingGeneration>,
    policy: &HealthPolicy,
    os: SysrootOpener<'_>,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<CheckResult>, TransactionError> {
    let uptime = host.system.uptime;
    let left = || policy.timeout.saturating_sub(uptime());
    let (mut well_since, mut said) = (None, String::new());
    loop {
        let mut findings = health_checks::quick_checks(policy, pending);
        // A confirmed generation cannot be rolled back: one full run after boot is complete suffices for
        // the report.
        if pending.is_none() && findings.first().is_some_and(|boot| boot.ok) {
            findings.extend(health_checks::full_checks(policy, host, os, &|| policy.check_timeout));
            return Ok(findings);
        }
        let since = failed_checks(&findings).is_none().then(|| well_since.unwrap_or_else(uptime));
        well_since = since;
        if since.is_some_and(|since| uptime().saturating_sub(since) >= policy.steady) {
            // Programs get at least one interval to answer, even past the timeout.
            let deadline = || left().max(POLL_INTERVAL);
            findings.extend(health_checks::full_checks(policy, host, os, &deadline));
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
            let generation = record.map(|record| record.generation.clone());
            status_files::BOOT_CHECK
                .publish(&host.root, &HealthReport { generation, phase: HealthPhase::Checking, findings });
            said = waits_for;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Retry `act` while another program holds a lock.
fn retry_while_busy(
    host: &RunningHost,
    act: &mut dyn FnMut() -> Result<BootCheckOutcome, TransactionError>,
) -> Result<BootCheckOutcome, TransactionError> {
    let uptime = host.system.uptime;
    let end = uptime() + BUSY_TIMEOUT;
    loop {
        match act() {
            Err(error) if error.is_busy() && uptime() < end => std::thread::sleep(POLL_INTERVAL),
            acted => return acted,
        }
    }
}

fn confirm(
    host: &RunningHost,
    pending: &PendingGeneration,
    os: SysrootOpener<'_>,
    record: &GenerationRecord,
) -> Result<BootCheckOutcome, TransactionError> {
    let mut os = os(SysrootAccess::Stage)?;
    let host = host.lock()?;
    // Another process may have confirmed this generation or staged another one in the meantime.
    if pending::load(host.as_root())?.is_some_and(|now| now.staged == pending.staged) {
        // In this order: without the pending record, the mark would never be removed.
        unconfirmed_mark::remove_mark(host.as_root())?;
        pending::remove(host.as_root())?;
    }
    // Leftovers only occupy space; the next update tries again.
    if let Err(error) = os.clean_up() {
        log::warn!("cannot clean up the sysroot: {error}; the next update tries again");
    }
    let stateroot = &host.running.booted.deployment.stateroot;
    if let Err(error) = sysroot::prune_objects(&mut *os, Path::new(SYSROOT), stateroot, Some(&host)) {
        log::warn!("cannot prune the object store: {error}; the next update tries again");
    }
    Ok(BootCheckOutcome::Confirmed(Box::new(record.clone())))
}

fn roll_back(
    host: &RunningHost,
    policy: &HealthPolicy,
    pending: &PendingGeneration,
    os: SysrootOpener<'_>,
    failed: &str,
) -> Result<BootCheckOutcome, TransactionError> {
    let generation = pending.generation().to_owned();
    let reason = format!("boot check did not pass within {} seconds: {failed}", policy.timeout.as_secs());
    if let Err(because) = policy.may_roll_back(pending, has_etcd(&host.root)) {
        return Ok(BootCheckOutcome::KeptUnhealthy { generation, reason, because });
    }
    let base = &pending.staged.base;
    if !os(SysrootAccess::Read)?.deployments()?.iter().any(|deployment| deployment.id == *base) {
        return Err(BootError::RollbackDeploymentGone { generation, base: base.to_string() }.into());
    }
    early_boot::roll_back(os, host, pending, &reason)?;
    Ok(BootCheckOutcome::RolledBack { generation, reason })
}
