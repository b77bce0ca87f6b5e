//! One attempt to complete the first boot: compare, apply, verify or stage.

use crate::core::config::policy::DisruptionPolicy;
use crate::core::plan::remaining_work::RemainingWork;
use crate::core::values::backoff::RetryClass;
use crate::firstboot::FirstBootPorts;
use crate::firstboot::stopwatch::PhaseStopwatch;
use crate::host::RunningHost;
use crate::os::protocol::SysrootAccess;
use crate::os::{OsError, PullPhase};
use crate::transaction::TransactionError;
use crate::transaction::boot::first_boot;
use crate::transaction::boot::first_boot::FirstBootProgress;
use crate::transaction::plan::target::{TargetSysroot, UpdateProgress, UpdatePurpose, UpdateTarget};
use crate::transaction::state::current::DecodedConfig;
use crate::transaction::update::error::UpdateError;
use crate::transaction::update::running_host::StagedUpdate;
use crate::transaction::update::{running_host, stage, sysroot};

/// Input of an attempt.
#[derive(Debug, Clone, Copy)]
pub(super) struct FirstBootAttempt<'a> {
    pub(super) host: &'a RunningHost,
    pub(super) configuration: &'a DecodedConfig,
}

/// Result of a successful attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttemptOutcome {
    /// The host matches the config.
    Verified,
    /// A deployment with the config is staged and unlocked.
    Unlocked,
}

impl FirstBootAttempt<'_> {
    pub(super) fn run(
        self,
        outside: &mut FirstBootPorts<'_>,
        stopwatch: &mut PhaseStopwatch,
    ) -> Result<AttemptOutcome, TransactionError> {
        stopwatch.begin("inspecting the host");
        let host = self.host.lock()?;
        let reached = first_boot::progress(&host, self.configuration)?;
        let mut os = (outside.sessions)(SysrootAccess::Stage)?;
        if reached != FirstBootProgress::NotApplied {
            stopwatch.begin("verifying");
            if !sysroot::verify_running(&mut *os, self.host)?.has_drift() {
                return Ok(AttemptOutcome::Verified);
            }
            stopwatch.begin("inspecting the host");
        }
        let target = UpdateTarget {
            sysroot: TargetSysroot::Running(self.host),
            desired: self.configuration,
            image: None,
            purpose: UpdatePurpose::FirstBoot,
            profile: outside.profile,
            policy: Some(&DisruptionPolicy::default()),
        };
        let mut progress = |stage: UpdateProgress| stopwatch.begin(phase(&stage));
        match running_host::prepare(&mut *os, &host, target, &mut progress)? {
            RemainingWork::Reboot(StagedUpdate { pending, .. })
                if reached == FirstBootProgress::AppliedByReboot =>
            {
                stage::unstage(&mut *os, &host, &pending)?;
                return Err(UpdateError::RebootIneffective(pending.generation().to_owned()).into());
            }
            RemainingWork::Reboot(StagedUpdate { pending, .. }) => {
                stopwatch.begin("unlocking");
                stage::unlock(&mut *os, outside.services, &host, &pending)?;
                return Ok(AttemptOutcome::Unlocked);
            }
            RemainingWork::Live(update) => drop(update.apply(outside.services, &host)?),
            RemainingWork::Nothing => {}
        }
        stopwatch.begin("verifying");
        let verified = sysroot::verify_running(&mut *os, self.host)?;
        if verified.has_drift() {
            return Err(UpdateError::Drifted(verified.counting()).into());
        }
        Ok(AttemptOutcome::Verified)
    }
}

fn phase(stage: &UpdateProgress) -> &'static str {
    match stage {
        UpdateProgress::Pulling(step) if step.phase == PullPhase::Manifest => "asking the registry",
        UpdateProgress::Pulling(_) | UpdateProgress::Unpacking => "fetching the image",
        UpdateProgress::Deploying => "deploying",
        UpdateProgress::Configuring | UpdateProgress::WritingBootEntries => "configuring",
    }
}

/// Describe for the console how the first boot goes on after an error.
pub(super) fn retry_message(error: &TransactionError) -> &'static str {
    match (error.retry_class(), error) {
        (_, TransactionError::Os(OsError::Pull { reason, .. })) if reason.is_transient() => {
            "waits for the network; retried until the registry answers"
        }
        (RetryClass::Time, _) => "is delayed; retrying",
        (RetryClass::Repair, _) => "cannot be completed until this is repaired; retrying",
        (RetryClass::Configuration, _) => "cannot be completed with this config; retrying at intervals",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::values::refusal::RefusalList;
    use crate::os::{PullFailure, RedactedCause};

    #[test]
    fn error_decides_retry_class_and_console_text() {
        let pull = |reason| {
            let source = RedactedCause::new("x");
            TransactionError::Os(OsError::Pull { image: "reg/os".into(), reason, source })
        };
        for (error, expected) in [
            (pull(PullFailure::Dns), RetryClass::Time),
            (pull(PullFailure::Unreachable), RetryClass::Time),
            (pull(PullFailure::Denied), RetryClass::Repair),
            (pull(PullFailure::NotFound), RetryClass::Repair),
            (RefusalList::one("spec", "wrong").into(), RetryClass::Configuration),
            (OsError::Busy { sysroot: "/".into(), holder: None }.into(), RetryClass::Time),
            (UpdateError::Drifted(vec!["/etc/a".into()]).into(), RetryClass::Repair),
        ] {
            assert_eq!(error.retry_class(), expected, "{error}");
        }
        assert!(retry_message(&pull(PullFailure::Dns)).contains("waits for the network"));
        assert!(!retry_message(&pull(PullFailure::Denied)).contains("network"));
    }
}
