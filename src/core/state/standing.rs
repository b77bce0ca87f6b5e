//! What runs: which generation, whether the whole of it, and what became of the one that was to
//! boot. Decided from the boot entry, the record in `/etc` and the pending generation.

#[cfg(test)]
mod tests;

use super::generation::Record;
use super::pending::{Failure, FailureKind, Pending};
use crate::core::values::deployment::DeploymentId;

/// So many reboots in vain are enough.
const MOST_ATTEMPTS: usize = 3;

/// What the running system is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// A generation: the record names this deployment, and the boot entry its name, if any.
    Whole,
    /// The deployment of the pending generation, with an `/etc` that was merged without it.
    Unbound,
    /// A deployment that somebody else made. Its `/etc` was merged from that of the generation which
    /// the record names, if there is one.
    Foreign,
    /// The boot entry names a generation that neither the record nor what is pending knows.
    Unknown,
}

/// What is known of the system that runs.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The deployment that booted.
    pub deployment: &'a DeploymentId,
    /// The generation that its boot entry names.
    pub argument: Option<&'a str>,
    /// The record in its `/etc`.
    pub record: Option<&'a Record>,
    /// The generation that was to boot.
    pub pending: Option<&'a Pending>,
}

/// Tells what runs.
#[must_use]
pub fn standing(seen: Seen<'_>) -> Standing {
    let Seen { deployment, argument, record, pending } = seen;
    let recorded = record.filter(|record| record.names(deployment)).map(|record| record.generation.as_str());
    match (argument, recorded) {
        (None, Some(_)) => Standing::Whole,
        (Some(argument), Some(recorded)) if argument == recorded => Standing::Whole,
        (None, None) => Standing::Foreign,
        (Some(argument), _) => match pending {
            Some(pending) if pending.generation() == argument => Standing::Unbound,
            // Whoever deploys anew takes the arguments over, the generation's name among them.
            _ if record.is_some_and(|record| record.generation == argument) => Standing::Foreign,
            _ => Standing::Unknown,
        },
    }
}

/// What becomes of a pending generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// There is none.
    Nothing,
    /// It is staged, and the system has not been rebooted since.
    Waits,
    /// It runs, and is to show that it is healthy.
    Arrived,
    /// It runs without its configuration, which has to be bound; the system reboots once then.
    Bind,
    /// It runs, and is to be left for the deployment that it replaced: for this reason.
    Leave(String),
    /// It had its chance, and the deployment that it replaced runs again: for this reason.
    Left(String),
    /// The system that it was staged on runs again, and it is to be staged once more.
    StageAgain(Failure),
    /// Another system runs than the one that it was made for.
    Superseded,
}

/// Decides what becomes of what was pending, in the boot `boot_id`. One that ran in `most_boots` earlier boots and was
/// never found healthy is left; without that number it may be tried for ever.
#[must_use]
pub fn fate(seen: Seen<'_>, boot_id: &str, most_boots: Option<usize>) -> Fate {
    let Some(pending) = seen.pending else { return Fate::Nothing };
    let runs = seen.argument == Some(pending.generation());
    match standing(seen) {
        Standing::Whole if runs => arrived(pending, boot_id, most_boots),
        Standing::Unbound if pending.unbound_in.iter().all(|earlier| earlier == boot_id) => Fate::Bind,
        Standing::Unbound => Fate::Leave("its deployment booted without its configuration, twice".to_owned()),
        _ if pending.intent.staged_in == boot_id => Fate::Waits,
        _ if *seen.deployment == pending.intent.base => left(pending),
        _ => Fate::Superseded,
    }
}

fn arrived(pending: &Pending, boot_id: &str, most_boots: Option<usize>) -> Fate {
    if let Some(reason) = &pending.given_up {
        return Fate::Leave(reason.clone());
    }
    let earlier = pending.booted_in.iter().filter(|earlier| *earlier != boot_id).count();
    match most_boots {
        Some(most) if earlier >= most => {
            let times = if earlier == 1 { "once".to_owned() } else { format!("{earlier} times") };
            Fate::Leave(format!("it was booted {times}, and each time went down before it was found healthy"))
        }
        _ => Fate::Arrived,
    }
}

/// What the return of the system that it was staged on means.
fn left(pending: &Pending) -> Fate {
    let chosen = "the older deployment was chosen, at the boot menu or by the bootloader";
    match (&pending.given_up, pending.booted_in.is_empty(), pending.is_finalized) {
        (Some(reason), ..) => Fate::Left(reason.clone()),
        (None, false, _) => Fate::Left(format!("before it was found healthy {chosen}")),
        (None, true, true) => Fate::Left(format!("it did not come up, and {chosen}")),
        (None, true, false) => {
            let failure = why(pending);
            match attempts_in_vain(pending, &failure) {
                // Whoever follows would reboot for it for ever.
                attempts if attempts >= MOST_ATTEMPTS => Fate::Left(format!(
                    "its deployment could not be finalized in {attempts} shutdowns, the last time because {}",
                    failure.reason
                )),
                _ => Fate::StageAgain(failure),
            }
        }
    }
}

/// How often the system was rebooted for it and did not get there. One that was rebooted for something else does not count.
fn attempts_in_vain(pending: &Pending, last: &Failure) -> usize {
    let failures = pending.intent.failures.iter().chain([last]);
    failures.filter(|failure| failure.kind != FailureKind::NotArmed).count()
}

/// Why the system that it was staged on runs again.
fn why(pending: &Pending) -> Failure {
    let staged_in = &pending.intent.staged_in;
    match (&pending.armed_in, &pending.failure) {
        (_, Some(failure)) if failure.boot_id == *staged_in => failure.clone(),
        (None, _) => Failure {
            boot_id: staged_in.clone(),
            kind: FailureKind::NotArmed,
            reason: "the system was rebooted before the generation was armed".to_owned(),
        },
        (Some(armed_in), _) => Failure {
            boot_id: armed_in.clone(),
            kind: FailureKind::CutOff,
            reason: "the system went down before its deployment was finalized, and left no reason".to_owned(),
        },
    }
}
