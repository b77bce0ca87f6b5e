//! What runs: which generation, whether the whole of it, and what became of the one that was to
//! boot. Decided from the boot entry, the record in `/etc` and the pending generation.

#[cfg(test)]
mod tests;

use super::pending::{FailureKind, PendingGeneration, UpdateFailure};
use super::record::GenerationRecord;
use crate::core::values::deployment::DeploymentId;

/// So many reboots in vain are enough.
const MOST_ATTEMPTS: usize = 3;

/// What the running system is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootedState {
    /// A generation: the record names this deployment, and the boot entry its name, if any.
    Complete,
    /// The deployment of the pending generation, with an `/etc` that was merged without it.
    WithoutConfig,
    /// A deployment that somebody else made. Its `/etc` was merged from that of the generation which
    /// the record names, if there is one.
    Foreign,
    /// The boot entry names a generation that neither the record nor what is pending knows.
    Unknown,
}

/// What is known of the system that runs.
#[derive(Debug, Clone, Copy)]
pub struct BootObservation<'a> {
    /// The deployment that booted.
    pub deployment: &'a DeploymentId,
    /// The generation that its boot entry names.
    pub argument: Option<&'a str>,
    /// The record in its `/etc`.
    pub record: Option<&'a GenerationRecord>,
    /// The generation that was to boot.
    pub pending: Option<&'a PendingGeneration>,
}

/// Tells what runs.
#[must_use]
pub fn standing(seen: BootObservation<'_>) -> BootedState {
    let BootObservation { deployment, argument, record, pending } = seen;
    let recorded = record.filter(|record| record.names(deployment)).map(|record| record.generation.as_str());
    match (argument, recorded) {
        (None, Some(_)) => BootedState::Complete,
        (Some(argument), Some(recorded)) if argument == recorded => BootedState::Complete,
        (None, None) => BootedState::Foreign,
        (Some(argument), _) => match pending {
            Some(pending) if pending.generation() == argument => BootedState::WithoutConfig,
            // Whoever deploys anew takes the arguments over, the generation's name among them.
            _ if record.is_some_and(|record| record.generation == argument) => BootedState::Foreign,
            _ => BootedState::Unknown,
        },
    }
}

/// What becomes of a pending generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PendingOutcome {
    /// There is none.
    Nothing,
    /// It is staged, and the system has not been rebooted since.
    AwaitsReboot,
    /// It runs, and is to show that it is healthy.
    Booted,
    /// It runs without its configuration, which has to be bound; the system reboots once then.
    WriteConfig,
    /// It runs, and is to be left for the deployment that it replaced: for this reason.
    RollBack(String),
    /// It had its chance, and the deployment that it replaced runs again: for this reason.
    RolledBack(String),
    /// The system that it was staged on runs again, and it is to be staged once more.
    Restage(UpdateFailure),
    /// Another system runs than the one that it was made for.
    Superseded,
}

/// Decides what becomes of what was pending, in the boot `boot_id`. One that ran in `most_boots` earlier boots and was
/// never found healthy is left; without that number it may be tried for ever.
#[must_use]
pub fn fate(seen: BootObservation<'_>, boot_id: &str, most_boots: Option<usize>) -> PendingOutcome {
    let Some(pending) = seen.pending else { return PendingOutcome::Nothing };
    let runs = seen.argument == Some(pending.generation());
    match standing(seen) {
        BootedState::Complete if runs => arrived(pending, boot_id, most_boots),
        BootedState::WithoutConfig if pending.unbound_in.iter().all(|earlier| earlier == boot_id) => {
            PendingOutcome::WriteConfig
        }
        BootedState::WithoutConfig => {
            PendingOutcome::RollBack("its deployment booted without its configuration, twice".to_owned())
        }
        _ if pending.intent.staged_in == boot_id => PendingOutcome::AwaitsReboot,
        _ if *seen.deployment == pending.intent.base => left(pending),
        _ => PendingOutcome::Superseded,
    }
}

fn arrived(pending: &PendingGeneration, boot_id: &str, most_boots: Option<usize>) -> PendingOutcome {
    if let Some(reason) = &pending.given_up {
        return PendingOutcome::RollBack(reason.clone());
    }
    let earlier = pending.booted_in.iter().filter(|earlier| *earlier != boot_id).count();
    match most_boots {
        Some(most) if earlier >= most => {
            let times = if earlier == 1 { "once".to_owned() } else { format!("{earlier} times") };
            PendingOutcome::RollBack(format!(
                "it was booted {times}, and each time went down before it was found healthy"
            ))
        }
        _ => PendingOutcome::Booted,
    }
}

/// What the return of the system that it was staged on means.
fn left(pending: &PendingGeneration) -> PendingOutcome {
    let chosen = "the older deployment was chosen, at the boot menu or by the bootloader";
    match (&pending.given_up, pending.booted_in.is_empty(), pending.is_finalized) {
        (Some(reason), ..) => PendingOutcome::RolledBack(reason.clone()),
        (None, false, _) => PendingOutcome::RolledBack(format!("before it was found healthy {chosen}")),
        (None, true, true) => PendingOutcome::RolledBack(format!("it did not come up, and {chosen}")),
        (None, true, false) => {
            let failure = why(pending);
            match attempts_in_vain(pending, &failure) {
                // Whoever follows would reboot for it for ever.
                attempts if attempts >= MOST_ATTEMPTS => PendingOutcome::RolledBack(format!(
                    "its deployment could not be finalized in {attempts} shutdowns, the last time because {}",
                    failure.reason
                )),
                _ => PendingOutcome::Restage(failure),
            }
        }
    }
}

/// How often the system was rebooted for it and did not get there. One that was rebooted for something else does not count.
fn attempts_in_vain(pending: &PendingGeneration, last: &UpdateFailure) -> usize {
    let failures = pending.intent.failures.iter().chain([last]);
    failures.filter(|failure| failure.kind != FailureKind::NotUnlocked).count()
}

/// Why the system that it was staged on runs again.
fn why(pending: &PendingGeneration) -> UpdateFailure {
    let staged_in = &pending.intent.staged_in;
    match (&pending.armed_in, &pending.failure) {
        (_, Some(failure)) if failure.boot_id == *staged_in => failure.clone(),
        (None, _) => UpdateFailure {
            boot_id: staged_in.clone(),
            kind: FailureKind::NotUnlocked,
            reason: "the system was rebooted before the generation was armed".to_owned(),
        },
        (Some(armed_in), _) => UpdateFailure {
            boot_id: armed_in.clone(),
            kind: FailureKind::Interrupted,
            reason: "the system went down before its deployment was finalized, and left no reason".to_owned(),
        },
    }
}
