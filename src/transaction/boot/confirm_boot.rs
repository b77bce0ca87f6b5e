//! What booted shows that it is healthy, and is settled; or its time is over, and the deployment that it replaced boots
//! again.

use crate::transaction::state::boot_check_time::{has_etcd, most_boots, policy};
use std::path::Path;
use std::time::Duration;

use crate::core::config::settings::boot_check::HealthPolicy;
use crate::core::plan::first_boot::ENCAPSULATED;
use crate::core::state::boot_check::{CheckResult, HealthPhase, HealthReport, RollbackDisabled, complaint};
use crate::core::state::booted_state;
use crate::core::state::booted_state::PendingOutcome;
use crate::core::state::pending::PendingGeneration;
use crate::core::state::record::GenerationRecord;
use crate::core::values::names::ManagedPath;
use crate::host::Root;
use crate::host::facts::boot;
use crate::host::facts::booted::{BootedDeployment, SYSROOT};
use crate::host::fs::lock::HostLock;
use crate::os::protocol::Access;

use super::{early_boot, health_checks};
use crate::transaction::state::current::Current;
use crate::transaction::state::{login_message, pending, status_files};
use crate::transaction::update::sysroot;
use crate::transaction::{Sessions, TransactionError};

/// How often is looked.
const PACE: Duration = Duration::from_secs(2);
/// How long others who change the host are waited for at the end.
const PATIENCE: Duration = Duration::from_secs(120);

/// What came of it.
#[derive(Debug)]
pub enum Judgement {
    /// Nothing here was ever applied.
    Unmanaged,
    /// What runs was settled before; how it is.
    Examined(HealthReport),
    /// It is healthy, and settled: what only earlier ones needed is removed.
    Settled(Box<GenerationRecord>),
    /// It is not healthy, and is left: the deployment that it replaced has to be booted now.
    Left {
        /// The generation.
        generation: String,
        /// Why.
        reason: String,
    },
    /// It is not healthy, and stays.
    Kept {
        /// The generation.
        generation: String,
        /// What is wrong.
        reason: String,
        /// Why it stays.
        because: RollbackDisabled,
    },
}

/// Looks until all is well, or the time is over, and acts on it. `say` gets what it waits for, whenever that changes.
pub fn judge(
    booted: &BootedDeployment,
    os: Sessions<'_>,
    say: &mut dyn FnMut(&str),
) -> Result<Judgement, TransactionError> {
    let root = Root::open(Path::new("/"))?;
    let record = Current::load_record(&root)?;
    // Where a first boot is completed without a reboot, there is a record at its end.
    if record.is_none() && !root.exists(&ManagedPath::constant(ENCAPSULATED))? {
        return Ok(Judgement::Unmanaged);
    }
    let found = pending::load(&root)?;
    let most = most_boots(&root, found.as_ref());
    let fate = booted_state::fate(booted.seen(record.as_ref(), found.as_ref()), &boot::boot_id(), most);
    let on_probation = found.filter(|_| fate == PendingOutcome::Booted);
    let policy = policy(&root);
    let findings = watch(&root, record.as_ref(), on_probation.as_ref(), &policy, os, say)?;
    let Some(record) = Current::load_record(&root)? else { return Ok(Judgement::Unmanaged) };
    let complaint = complaint(&findings);
    let phase = if complaint.is_some() { HealthPhase::Unhealthy } else { HealthPhase::Healthy };
    let report = HealthReport { generation: Some(record.generation.clone()), phase, findings };
    status_files::HEALTH.publish(&root, &report);
    login_message::refresh(&root);
    match (on_probation, complaint) {
        (None, _) => Ok(Judgement::Examined(report)),
        (Some(pending), None) => patiently(&mut || settle(&root, booted, &pending, os, &record)),
        (Some(pending), Some(complaint)) => {
            patiently(&mut || leave(&root, &policy, &pending, os, &complaint))
        }
    }
}

/// Looks until everything was well for long enough, or there is no time left; says what was seen last.
fn watch(
    root: &Root,
    record: Option<&GenerationRecord>,
    pending: Option<&PendingGeneration>,
    policy: &HealthPolicy,
    os: Sessions<'_>,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<CheckResult>, TransactionError> {
    let left = || policy.probation.saturating_sub(boot::uptime());
    let (mut well_since, mut said) = (None, String::new());
    loop {
        let mut findings = health_checks::glance(policy, pending);
        // Nothing depends on what was settled before: once it is up, one look tells how it is.
        if pending.is_none() && findings.first().is_some_and(|boot| boot.ok) {
            findings.extend(health_checks::examine(policy, os, &|| policy.check_timeout));
            return Ok(findings);
        }
        let since = complaint(&findings).is_none().then(|| well_since.unwrap_or_else(boot::uptime));
        well_since = since;
        if since.is_some_and(|since| boot::uptime().saturating_sub(since) >= policy.steady) {
            // Whoever checks has time to say so, however late it is.
            let deadline = || left().max(PACE);
            findings.extend(health_checks::examine(policy, os, &deadline));
            if complaint(&findings).is_none() {
                return Ok(findings);
            }
            well_since = None;
        }
        let complaint = complaint(&findings);
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
fn patiently(
    act: &mut dyn FnMut() -> Result<Judgement, TransactionError>,
) -> Result<Judgement, TransactionError> {
    let end = boot::uptime() + PATIENCE;
    loop {
        match act() {
            Err(error) if error.is_busy() && boot::uptime() < end => std::thread::sleep(PACE),
            acted => return acted,
        }
    }
}

fn settle(
    root: &Root,
    booted: &BootedDeployment,
    pending: &PendingGeneration,
    os: Sessions<'_>,
    record: &GenerationRecord,
) -> Result<Judgement, TransactionError> {
    let mut os = os(Access::Stage)?;
    let _lock = HostLock::take(root)?;
    // Somebody may have gone back, or settled it, meanwhile.
    if pending::load(root)?.is_some_and(|now| now.intent == pending.intent) {
        pending::close(root)?;
    }
    // What is left over takes space and does no harm; the next change tries again.
    if let Err(error) = os.clean_up() {
        log::warn!("what no deployment needs could not be removed: {error}");
    }
    let stateroot = &booted.deployment.stateroot;
    if let Err(error) = sysroot::prune(&mut *os, Path::new(SYSROOT), stateroot, Some(root)) {
        log::warn!("the store could not be pruned: {error}");
    }
    Ok(Judgement::Settled(Box::new(record.clone())))
}

fn leave(
    root: &Root,
    policy: &HealthPolicy,
    pending: &PendingGeneration,
    os: Sessions<'_>,
    complaint: &str,
) -> Result<Judgement, TransactionError> {
    let generation = pending.generation().to_owned();
    let reason = format!("it was not healthy within {} seconds: {complaint}", policy.probation.as_secs());
    if let Err(because) = policy.may_go_back(pending, has_etcd(root)) {
        return Ok(Judgement::Kept { generation, reason, because });
    }
    let base = &pending.intent.base;
    if !os(Access::Read)?.deployments()?.iter().any(|deployment| deployment.id == *base) {
        return Err(TransactionError::NoWayBack { generation, base: base.to_string() });
    }
    early_boot::leave(os, pending, &reason)?;
    Ok(Judgement::Left { generation, reason })
}
