//! What booted shows that it is healthy, and is settled; or its time is over, and the deployment that it replaced boots
//! again.

use crate::transaction::state::boot_check_time::{boot_check_policy, has_etcd, max_boots};
use std::path::Path;
use std::time::Duration;

use crate::core::config::settings::boot_check::HealthPolicy;
use crate::core::plan::first_boot::ENCAPSULATED;
use crate::core::state::boot_check::{
    CheckResult, HealthPhase, HealthReport, RollbackDisabled, failed_checks,
};
use crate::core::state::booted_state;
use crate::core::state::booted_state::PendingOutcome;
use crate::core::state::pending::PendingGeneration;
use crate::core::state::record::GenerationRecord;
use crate::core::values::names::ManagedPath;
use crate::host::Root;
use crate::host::facts::boot;
use crate::host::facts::booted::{BootedDeployment, SYSROOT};
use crate::host::fs::lock::HostLock;
use crate::os::protocol::SysrootAccess;

use super::{early_boot, health_checks};
use crate::transaction::state::current::CurrentState;
use crate::transaction::state::{login_message, pending, status_files};
use crate::transaction::update::sysroot;
use crate::transaction::{SysrootOpener, TransactionError};

/// How often is looked.
const PACE: Duration = Duration::from_secs(2);
/// How long others who change the host are waited for at the end.
const PATIENCE: Duration = Duration::from_secs(120);

/// What came of it.
#[derive(Debug)]
pub enum BootCheckOutcome {
    /// Nothing here was ever applied.
    Unmanaged,
    /// What runs was settled before; how it is.
    AlreadyConfirmed(HealthReport),
    /// It is healthy, and settled: what only earlier ones needed is removed.
    Confirmed(Box<GenerationRecord>),
    /// It is not healthy, and is left: the deployment that it replaced has to be booted now.
    RolledBack {
        /// The generation.
        generation: String,
        /// Why.
        reason: String,
    },
    /// It is not healthy, and stays.
    KeptUnhealthy {
        /// The generation.
        generation: String,
        /// What is wrong.
        reason: String,
        /// Why it stays.
        because: RollbackDisabled,
    },
}

/// Looks until all is well, or the time is over, and acts on it. `say` gets what it waits for, whenever that changes.
pub fn check_boot(
    booted: &BootedDeployment,
    os: SysrootOpener<'_>,
    say: &mut dyn FnMut(&str),
) -> Result<BootCheckOutcome, TransactionError> {
    let root = Root::open(Path::new("/"))?;
    let record = CurrentState::load_record(&root)?;
    // Where a first boot is completed without a reboot, there is a record at its end.
    if record.is_none() && !root.exists(&ManagedPath::constant(ENCAPSULATED))? {
        return Ok(BootCheckOutcome::Unmanaged);
    }
    let found = pending::load(&root)?;
    let most = max_boots(&root, found.as_ref());
    let fate =
        booted_state::pending_outcome(booted.seen(record.as_ref(), found.as_ref()), &boot::boot_id(), most);
    let unconfirmed = found.filter(|_| fate == PendingOutcome::Booted);
    let policy = boot_check_policy(&root);
    let findings = wait_until_healthy(&root, record.as_ref(), unconfirmed.as_ref(), &policy, os, say)?;
    let Some(record) = CurrentState::load_record(&root)? else { return Ok(BootCheckOutcome::Unmanaged) };
    let complaint = failed_checks(&findings);
    let phase = if complaint.is_some() { HealthPhase::Unhealthy } else { HealthPhase::Healthy };
    let report = HealthReport { generation: Some(record.generation.clone()), phase, findings };
    status_files::HEALTH.publish(&root, &report);
    login_message::refresh(&root);
    match (unconfirmed, complaint) {
        (None, _) => Ok(BootCheckOutcome::AlreadyConfirmed(report)),
        (Some(pending), None) => retry_while_busy(&mut || confirm(&root, booted, &pending, os, &record)),
        (Some(pending), Some(complaint)) => {
            retry_while_busy(&mut || roll_back(&root, &policy, &pending, os, &complaint))
        }
    }
}

/// Looks until everything was well for long enough, or there is no time left; says what was seen last.
fn wait_until_healthy(
    root: &Root,
    record: Option<&GenerationRecord>,
    pending: Option<&PendingGeneration>,
    policy: &HealthPolicy,
    os: SysrootOpener<'_>,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<CheckResult>, TransactionError> {
    let left = || policy.timeout.saturating_sub(boot::uptime());
    let (mut well_since, mut said) = (None, String::new());
    loop {
        let mut findings = health_checks::quick_checks(policy, pending);
        // Nothing depends on what was settled before: once it is up, one look tells how it is.
        if pending.is_none() && findings.first().is_some_and(|boot| boot.ok) {
            findings.extend(health_checks::full_checks(policy, os, &|| policy.check_timeout));
            return Ok(findings);
        }
        let since = failed_checks(&findings).is_none().then(|| well_since.unwrap_or_else(boot::uptime));
        well_since = since;
        if since.is_some_and(|since| boot::uptime().saturating_sub(since) >= policy.steady) {
            // Whoever checks has time to say so, however late it is.
            let deadline = || left().max(PACE);
            findings.extend(health_checks::full_checks(policy, os, &deadline));
            if failed_checks(&findings).is_none() {
                return Ok(findings);
            }
            well_since = None;
        }
        let complaint = failed_checks(&findings);
        if left().is_zero() && complaint.is_some() {
            return Ok(findings);
        }
        let waits_for =
            complaint.unwrap_or_else(|| format!("{} seconds without a complaint", policy.steady.as_secs()));
        if waits_for != said {
            say(&waits_for);
            let generation = record.map(|record| record.generation.clone());
            status_files::HEALTH
                .publish(root, &HealthReport { generation, phase: HealthPhase::Checking, findings });
            said = waits_for;
        }
        std::thread::sleep(PACE);
    }
}

/// Acts on the judgement. Others who change the host are waited for.
fn retry_while_busy(
    act: &mut dyn FnMut() -> Result<BootCheckOutcome, TransactionError>,
) -> Result<BootCheckOutcome, TransactionError> {
    let end = boot::uptime() + PATIENCE;
    loop {
        match act() {
            Err(error) if error.is_busy() && boot::uptime() < end => std::thread::sleep(PACE),
            acted => return acted,
        }
    }
}

fn confirm(
    root: &Root,
    booted: &BootedDeployment,
    pending: &PendingGeneration,
    os: SysrootOpener<'_>,
    record: &GenerationRecord,
) -> Result<BootCheckOutcome, TransactionError> {
    let mut os = os(SysrootAccess::Stage)?;
    let _lock = HostLock::take(root)?;
    // Somebody may have gone back, or settled it, meanwhile.
    if pending::load(root)?.is_some_and(|now| now.intent == pending.intent) {
        pending::remove(root)?;
    }
    // What is left over takes space and does no harm; the next change tries again.
    if let Err(error) = os.clean_up() {
        log::warn!("what no deployment needs could not be removed: {error}");
    }
    let stateroot = &booted.deployment.stateroot;
    if let Err(error) = sysroot::prune_objects(&mut *os, Path::new(SYSROOT), stateroot, Some(root)) {
        log::warn!("the store could not be pruned: {error}");
    }
    Ok(BootCheckOutcome::Confirmed(Box::new(record.clone())))
}

fn roll_back(
    root: &Root,
    policy: &HealthPolicy,
    pending: &PendingGeneration,
    os: SysrootOpener<'_>,
    complaint: &str,
) -> Result<BootCheckOutcome, TransactionError> {
    let generation = pending.generation().to_owned();
    let reason = format!("it was not healthy within {} seconds: {complaint}", policy.timeout.as_secs());
    if let Err(because) = policy.may_roll_back(pending, has_etcd(root)) {
        return Ok(BootCheckOutcome::KeptUnhealthy { generation, reason, because });
    }
    let base = &pending.intent.base;
    if !os(SysrootAccess::Read)?.deployments()?.iter().any(|deployment| deployment.id == *base) {
        return Err(TransactionError::RollbackDeploymentGone { generation, base: base.to_string() });
    }
    early_boot::roll_back(os, pending, &reason)?;
    Ok(BootCheckOutcome::RolledBack { generation, reason })
}
