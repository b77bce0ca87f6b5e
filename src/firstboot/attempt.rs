//! One attempt to complete a first boot, and what it failed for want of.

use crate::core::config::policy::DisruptionPolicy;
use crate::core::values::backoff::RetryClass;
use crate::host::Root;
use crate::host::facts::booted::BootedDeployment;
use crate::os::protocol::SysrootAccess;
use crate::os::{OsError, PullPhase};
use crate::transaction::TransactionError;
use crate::transaction::boot::first_boot;
use crate::transaction::boot::first_boot::FirstBootProgress;
use crate::transaction::boot::staged_deployment;
use crate::transaction::plan::target::{TargetSysroot, UpdateProgress, UpdatePurpose, UpdateTarget};
use crate::transaction::state::current::DecodedConfig;
use crate::transaction::update::running_host;
use crate::transaction::update::running_host::UpdateOutcome;
use crate::transaction::update::sysroot;

use crate::firstboot::FirstBootPorts;
use crate::firstboot::stopwatch::PhaseStopwatch;

/// What is attempted, and where.
#[derive(Debug, Clone, Copy)]
pub(super) struct FirstBootAttempt<'a> {
    pub(super) root: &'a Root,
    pub(super) booted: &'a BootedDeployment,
    pub(super) configuration: &'a DecodedConfig,
}

/// How far it got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttemptOutcome {
    /// Everything is as the configuration says.
    Verified,
    /// It is armed: a reboot leads there.
    Unlocked,
}

impl FirstBootAttempt<'_> {
    pub(super) fn make(
        self,
        outside: &mut FirstBootPorts<'_>,
        stopwatch: &mut PhaseStopwatch,
    ) -> Result<AttemptOutcome, TransactionError> {
        stopwatch.begin("looking");
        let reach = first_boot::progress(self.root, self.booted, self.configuration)?;
        let mut os = (outside.sessions)(SysrootAccess::Stage)?;
        if reach != FirstBootProgress::NotApplied {
            stopwatch.begin("verifying");
            if !sysroot::verify_running(&mut *os)?.deviates() {
                return Ok(AttemptOutcome::Verified);
            }
            stopwatch.begin("looking");
        }
        let target = UpdateTarget {
            site: TargetSysroot::Running(self.booted),
            desired: self.configuration,
            image: None,
            errand: UpdatePurpose::FirstBoot,
            profile: outside.profile,
            policy: &DisruptionPolicy::default(),
        };
        let mut progress = |stage: UpdateProgress| stopwatch.begin(phase(&stage));
        let outcome = running_host::apply(&mut *os, outside.services, self.booted, target, &mut progress)?;
        match outcome {
            UpdateOutcome::Staged { pending, .. } if reach == FirstBootProgress::AppliedByReboot => {
                running_host::unstage(&mut *os, &pending)?;
                Err(TransactionError::RebootIneffective(pending.generation().to_owned()))
            }
            UpdateOutcome::Staged { pending, .. } => {
                stopwatch.begin("arming");
                staged_deployment::unlock(&mut *os, outside.services, &pending)?;
                Ok(AttemptOutcome::Unlocked)
            }
            UpdateOutcome::Unchanged { .. } | UpdateOutcome::Live { .. } => {
                stopwatch.begin("verifying");
                let verified = sysroot::verify_running(&mut *os)?;
                if verified.deviates() {
                    return Err(TransactionError::Drifted(verified.paths()));
                }
                Ok(AttemptOutcome::Verified)
            }
        }
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

/// What whoever reads the console is told to expect.
pub(super) fn retry_message(error: &TransactionError) -> &'static str {
    match (error.cure(), error) {
        (_, TransactionError::Os(OsError::Pull { reason, .. })) if reason.is_transient() => {
            "waits for the network, and is tried until the registry answers"
        }
        (RetryClass::Time, _) => "waits, and is tried again",
        (RetryClass::Repair, _) => "cannot be completed yet, and is tried again",
        (RetryClass::Configuration, _) => {
            "cannot be completed with this configuration, and is tried again now and then"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::values::refusal::RefusalList;
    use crate::os::{PullFailure, RedactedCause};

    #[test]
    fn errors_are_told_apart_by_their_cure() {
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
            (OsError::Busy { sysroot: "/".into() }.into(), RetryClass::Time),
            (TransactionError::Drifted(vec!["/etc/a".into()]), RetryClass::Repair),
        ] {
            assert_eq!(error.cure(), expected, "{error}");
        }
        assert!(retry_message(&pull(PullFailure::Dns)).contains("waits for the network"));
        assert!(!retry_message(&pull(PullFailure::Denied)).contains("network"));
    }
}
