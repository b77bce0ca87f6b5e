//! State of the booted deployment and outcome of the pending generation. Decided from the boot entry, the
//! record in `/etc` and the pending record.

#[cfg(test)]
mod tests;

use super::pending::{FailureKind, PendingGeneration, UpdateFailure};
use super::record::GenerationRecord;
use crate::core::values::deployment::DeploymentId;
use crate::core::values::identifiers::{BootId, GenerationId};

/// Failed finalizations after which a generation is no longer staged again.
const MAX_ATTEMPTS: usize = 3;

/// Boots after which a generation is rolled back although an orderly shutdown ended them: a unit of it may reboot the host
/// each time (`FailureAction=reboot`, a watchdog's script).
const MAX_BOOTS: usize = 10;

/// Relation of the booted deployment to the agent's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootedState {
    /// The whole generation: the record names this deployment, and the boot entry names the same generation
    /// or none.
    Complete,
    /// The pending generation's deployment, but its `/etc` was merged without the configuration.
    WithoutConfig,
    /// Foreign deployment. Its `/etc` was merged from that of the generation named in the record, if there is
    /// one.
    Foreign,
    /// The boot entry names a generation that neither the record nor the pending record knows.
    Unknown,
}

/// Observation of the booted system.
#[derive(Debug, Clone, Copy)]
pub struct BootObservation<'a> {
    pub deployment: &'a DeploymentId,
    /// Generation named by the kernel argument `flameholder.generation=`.
    pub argument: Option<&'a GenerationId>,
    /// Record in the deployment's `/etc`.
    pub record: Option<&'a GenerationRecord>,
    pub pending: Option<&'a PendingGeneration>,
    /// Read only where `deployment` is the one that the pending generation was staged on.
    pub choice: BootChoice,
}

/// Way in which the booted deployment came to be the booted one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootChoice {
    /// Its boot entry is the default one.
    Default,
    /// Another boot entry is the default one, or the boot entries cannot be read.
    Other,
}

impl BootChoice {
    /// Describe how a deployment other than the expected one came to be booted.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::Default => "after a program made it the default boot entry, as `rpm-ostree rollback` does",
            Self::Other => "chosen at the boot menu or by the bootloader",
        }
    }
}

/// Classify the booted deployment.
#[must_use]
pub fn booted_state(seen: BootObservation<'_>) -> BootedState {
    let BootObservation { deployment, argument, record, pending, choice: _ } = seen;
    let recorded = record.filter(|record| record.names(deployment)).map(|record| record.generation.as_str());
    match (argument, recorded) {
        (None, Some(_)) => BootedState::Complete,
        (Some(argument), Some(recorded)) if argument == recorded => BootedState::Complete,
        (None, None) => BootedState::Foreign,
        (Some(argument), _) => match pending {
            Some(pending) if pending.generation() == argument && pending.is_deployed_as(deployment) => {
                BootedState::WithoutConfig
            }
            // `rpm-ostree upgrade` and `bootc` copy all kernel arguments, the generation's ID among them.
            Some(pending) if pending.generation() == argument => BootedState::Foreign,
            _ if record.is_some_and(|record| record.generation == *argument) => BootedState::Foreign,
            _ => BootedState::Unknown,
        },
    }
}

/// Outcome of a pending generation after a boot, and thereby the next action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PendingOutcome {
    /// There is no pending generation.
    Nothing,
    /// The generation is staged, and the system has not been rebooted since.
    AwaitsReboot,
    /// The generation is finalized, and a soft reboot booted the deployment that it was staged on once more: the
    /// bootloader starts it with the next full reboot.
    AwaitsFullReboot,
    /// The generation booted, unconfirmed: the boot check follows.
    Booted,
    /// The deployment booted without its configuration: write it into `/etc` and reboot once.
    WriteConfig,
    /// The generation booted and must be rolled back, for this reason.
    RollBack(String),
    /// The generation was booted or finalized, and the deployment before it is booted again, for this reason.
    RolledBack(String),
    /// The deployment that it was staged on is booted again: stage the generation once more.
    Restage(UpdateFailure),
    /// Another deployment is booted than the two that the pending record names.
    Superseded,
}

/// Decide the outcome of the pending generation in the boot `boot_id`. A generation that was booted
/// `most_boots` times before without passing its boot check is rolled back; `None` sets no limit. Boots that an orderly
/// shutdown ended have a limit of their own.
#[must_use]
pub fn pending_outcome(
    seen: BootObservation<'_>,
    boot_id: &BootId,
    most_boots: Option<usize>,
) -> PendingOutcome {
    let Some(pending) = seen.pending else { return PendingOutcome::Nothing };
    let is_booted = seen.argument == Some(pending.generation());
    match booted_state(seen) {
        BootedState::Complete if is_booted => booted_outcome(pending, boot_id, most_boots),
        BootedState::WithoutConfig
            if pending.booted_without_config_in.iter().all(|earlier| earlier == boot_id) =>
        {
            PendingOutcome::WriteConfig
        }
        BootedState::WithoutConfig => {
            PendingOutcome::RollBack("its deployment booted twice without its configuration".to_owned())
        }
        _ if pending.staged.staged_in_boot == *boot_id => PendingOutcome::AwaitsReboot,
        _ if *seen.deployment == pending.staged.base => rolled_back_outcome(pending, boot_id, seen.choice),
        _ => PendingOutcome::Superseded,
    }
}

fn booted_outcome(
    pending: &PendingGeneration,
    boot_id: &BootId,
    most_boots: Option<usize>,
) -> PendingOutcome {
    if let Some(reason) = &pending.rejected {
        return PendingOutcome::RollBack(reason.clone());
    }
    let Some(most) = most_boots else { return PendingOutcome::Booted };
    let earlier = || pending.booted_in.iter().filter(|boot| *boot != boot_id);
    let (all, unexplained) =
        (earlier().count(), earlier().filter(|boot| !pending.shut_down_in.contains(boot)).count());
    if unexplained >= most {
        let times = if unexplained == 1 { "once".to_owned() } else { format!("{unexplained} times") };
        PendingOutcome::RollBack(format!(
            "it was booted {times}, but the system went down before its boot check passed"
        ))
    } else if all >= MAX_BOOTS.max(most) {
        PendingOutcome::RollBack(format!(
            "it was booted {all} times, and each time rebooted before its boot check passed"
        ))
    } else {
        PendingOutcome::Booted
    }
}

/// Decide the outcome where the deployment that it was staged on is booted again.
fn rolled_back_outcome(pending: &PendingGeneration, boot_id: &BootId, choice: BootChoice) -> PendingOutcome {
    let chosen = format!("the previous deployment was booted, {}", choice.description());
    let was_on_offer = !pending.staged.staged_in_boot.has_kernel_of(boot_id);
    match (&pending.rejected, pending.booted_in.is_empty(), pending.is_finalized) {
        (Some(reason), ..) => PendingOutcome::RolledBack(reason.clone()),
        (None, false, _) => PendingOutcome::RolledBack(format!("before its boot check passed, {chosen}")),
        (None, true, true) if was_on_offer => {
            PendingOutcome::RolledBack(format!("it did not come up, and {chosen}"))
        }
        (None, true, true) => PendingOutcome::AwaitsFullReboot,
        (None, true, false) => {
            let failure = last_failure(pending);
            match failed_attempts(pending, &failure) {
                // Without a limit the daemon would drain and reboot the node for it forever. A first boot has none: no
                // operator can log in yet and release a block, and no workload runs.
                attempts if attempts >= MAX_ATTEMPTS && !pending.staged.completes_first_boot => {
                    PendingOutcome::RolledBack(format!(
                        "its deployment could not be finalized in {attempts} shutdowns, most recently because {}",
                        failure.reason
                    ))
                }
                _ => PendingOutcome::Restage(failure),
            }
        }
    }
}

/// Count the reboots that should have booted this generation and did not. A reboot while the deployment was
/// locked does not count.
fn failed_attempts(pending: &PendingGeneration, last: &UpdateFailure) -> usize {
    let failures = pending.staged.failures.iter().chain([last]);
    failures.filter(|failure| failure.kind != FailureKind::NotUnlocked).count()
}

/// Return the reason why the generation did not boot.
fn last_failure(pending: &PendingGeneration) -> UpdateFailure {
    let staged_in = &pending.staged.staged_in_boot;
    match (&pending.unlocked_in, &pending.failure) {
        (_, Some(failure)) if failure.boot_id == *staged_in => failure.clone(),
        (None, _) => UpdateFailure {
            boot_id: staged_in.clone(),
            kind: FailureKind::NotUnlocked,
            reason: "the system was rebooted before the generation was unlocked".to_owned(),
        },
        (Some(unlocked_in), _) => UpdateFailure {
            boot_id: unlocked_in.clone(),
            kind: FailureKind::Interrupted,
            reason: "the system went down before its deployment was finalized, and left no reason".to_owned(),
        },
    }
}
