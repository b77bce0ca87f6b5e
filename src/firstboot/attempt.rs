//! One attempt to complete a first boot, and what it failed for want of.

use crate::core::config::policy::DisruptionPolicy;
use crate::core::values::backoff::RetryClass;
use crate::host::Root;
use crate::host::facts::booted::BootedDeployment;
use crate::os::protocol::Access;
use crate::os::{OsError, Phase};
use crate::transaction::TransactionError;
use crate::transaction::boot::first_boot;
use crate::transaction::boot::first_boot::Reach;
use crate::transaction::boot::staged_deployment;
use crate::transaction::plan::target::{Errand, Site, Stage, Target};
use crate::transaction::state::current::Configuration;
use crate::transaction::update::running_host;
use crate::transaction::update::running_host::Outcome;
use crate::transaction::update::sysroot;

use crate::firstboot::Outside;
use crate::firstboot::stopwatch::Stopwatch;

/// What is attempted, and where.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attempt<'a> {
    pub(super) root: &'a Root,
    pub(super) booted: &'a BootedDeployment,
    pub(super) configuration: &'a Configuration,
}

/// How far it got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempted {
    /// Everything is as the configuration says.
    Verified,
    /// It is armed: a reboot leads there.
    Reboots,
}

impl Attempt<'_> {
    pub(super) fn make(
        self,
        outside: &mut Outside<'_>,
        stopwatch: &mut Stopwatch,
    ) -> Result<Attempted, TransactionError> {
        stopwatch.begin("looking");
        let reach = first_boot::reach(self.root, self.booted, self.configuration)?;
        let mut os = (outside.sessions)(Access::Stage)?;
        if reach != Reach::Wanted {
            stopwatch.begin("verifying");
            if !sysroot::verify_running(&mut *os)?.deviates() {
                return Ok(Attempted::Verified);
            }
            stopwatch.begin("looking");
        }
        let target = Target {
            site: Site::Running(self.booted),
            desired: self.configuration,
            image: None,
            errand: Errand::FirstBoot,
            profile: outside.profile,
            policy: &DisruptionPolicy::default(),
        };
        let mut progress = |stage: Stage| stopwatch.begin(phase(&stage));
        let outcome = running_host::apply(&mut *os, outside.services, self.booted, target, &mut progress)?;
        match outcome {
            Outcome::Staged { pending, .. } if reach == Reach::Rebooted => {
                running_host::withdraw(&mut *os, &pending)?;
                Err(TransactionError::RebootedInVain(pending.generation().to_owned()))
            }
            Outcome::Staged { pending, .. } => {
                stopwatch.begin("arming");
                staged_deployment::arm(&mut *os, outside.services, &pending)?;
                Ok(Attempted::Reboots)
            }
            Outcome::Nothing { .. } | Outcome::Live { .. } => {
                stopwatch.begin("verifying");
                let verified = sysroot::verify_running(&mut *os)?;
                if verified.deviates() {
                    return Err(TransactionError::Deviates(verified.paths()));
                }
                Ok(Attempted::Verified)
            }
        }
    }
}

fn phase(stage: &Stage) -> &'static str {
    match stage {
        Stage::Importing(step) if step.phase == Phase::Manifest => "asking the registry",
        Stage::Importing(_) | Stage::Unpacking => "fetching the image",
        Stage::Deploying => "deploying",
        Stage::Configuring | Stage::Finishing => "configuring",
    }
}

/// What whoever reads the console is told to expect.
pub(super) fn waits_for(error: &TransactionError) -> &'static str {
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
    use crate::os::{Cause, PullFailure};

    #[test]
    fn errors_are_told_apart_by_their_cure() {
        let pull = |reason| {
            let source = Cause::new("x");
            TransactionError::Os(OsError::Pull { image: "reg/os".into(), reason, source })
        };
        for (error, expected) in [
            (pull(PullFailure::Dns), RetryClass::Time),
            (pull(PullFailure::Unreachable), RetryClass::Time),
            (pull(PullFailure::Denied), RetryClass::Repair),
            (pull(PullFailure::NotFound), RetryClass::Repair),
            (RefusalList::one("spec", "wrong").into(), RetryClass::Configuration),
            (OsError::Busy { sysroot: "/".into() }.into(), RetryClass::Time),
            (TransactionError::Deviates(vec!["/etc/a".into()]), RetryClass::Repair),
        ] {
            assert_eq!(error.cure(), expected, "{error}");
        }
        assert!(waits_for(&pull(PullFailure::Dns)).contains("waits for the network"));
        assert!(!waits_for(&pull(PullFailure::Denied)).contains("network"));
    }
}
