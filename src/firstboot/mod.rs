//! The first boot of a node: what Ignition cannot do is completed before the workload starts, in one transaction and
//! with one reboot, or without one where nothing needs it. Tried for ever, since nobody is there yet to try again.

mod attempt;
mod stopwatch;

use std::path::Path;

use crate::core::values::backoff::RetryClass;
use crate::core::values::profile::Profile;
use crate::host::facts::boot;
use crate::host::facts::booted::BootedDeployment;
use crate::host::{Root, ServiceControl};
use crate::transaction::boot::first_boot;
use crate::transaction::boot::first_boot::{FirstBootConfig, PhaseTiming};
use crate::transaction::{SysrootOpener, TransactionError};

use attempt::{AttemptOutcome, FirstBootAttempt};
use stopwatch::PhaseStopwatch;

/// What is outside: deployments, services, time, and whoever reads the console.
pub struct FirstBootPorts<'a> {
    /// The sysroot; one session per attempt.
    pub sessions: SysrootOpener<'a>,
    /// Who makes services take up a change.
    pub services: &'a dyn ServiceControl,
    /// Whose verdicts apply.
    pub profile: Profile,
    /// Tells whoever reads the console.
    pub say: &'a mut dyn FnMut(&str),
    /// Waits.
    pub wait: &'a mut dyn FnMut(std::time::Duration),
}

impl std::fmt::Debug for FirstBootPorts<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outside").field("profile", &self.profile).finish_non_exhaustive()
    }
}

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
pub enum FirstBootOutcome {
    /// Nothing is to be completed here.
    Nothing,
    /// The host is what its configuration says, and that is verified.
    Complete {
        /// The configuration's name.
        config: String,
        /// How long the parts took, those before the reboot included.
        times: Vec<PhaseTiming>,
    },
    /// It is with the next reboot, which is to come now.
    Reboot {
        /// The configuration's name.
        config: String,
    },
}

/// Completes the first boot, or gets as far as the reboot. An attempt that fails is followed by another: this returns an
/// error only where the host cannot be looked at.
pub fn run(
    booted: &BootedDeployment,
    mut outside: FirstBootPorts<'_>,
) -> Result<FirstBootOutcome, TransactionError> {
    let root = Root::open(Path::new("/"))?;
    let mut stopwatch = PhaseStopwatch::go_on(first_boot::load_timings(&root));
    let mut failures = Failures::default();
    loop {
        match once(&root, booted, &mut outside, &mut stopwatch) {
            Ok(outcome) => return Ok(outcome),
            Err(error) => {
                let delay = failures.next(&error, outside.say);
                stopwatch.begin("waiting");
                (outside.wait)(delay);
            }
        }
    }
}

fn once(
    root: &Root,
    booted: &BootedDeployment,
    outside: &mut FirstBootPorts<'_>,
    stopwatch: &mut PhaseStopwatch,
) -> Result<FirstBootOutcome, TransactionError> {
    let Some(FirstBootConfig { configuration, is_hollow }) = first_boot::load(root)? else {
        return Ok(FirstBootOutcome::Nothing);
    };
    let config = configuration.object.name.clone();
    if is_hollow {
        log::warn!("the whole configuration was not sent along: files and units stay as Ignition left them");
    }
    let attempt = FirstBootAttempt { root, booted, configuration: &configuration };
    match attempt.make(outside, stopwatch)? {
        AttemptOutcome::Unlocked => {
            first_boot::save_timings(root, &stopwatch.stop());
            Ok(FirstBootOutcome::Reboot { config })
        }
        AttemptOutcome::Verified => {
            first_boot::complete(root)?;
            Ok(FirstBootOutcome::Complete { config, times: stopwatch.stop() })
        }
    }
}

/// Attempts that failed in a row.
#[derive(Debug, Default)]
struct Failures {
    last: Option<RetryClass>,
    number: u32,
    said: String,
}

impl Failures {
    /// How long to wait after one more. What keeps it is said once.
    fn next(&mut self, error: &TransactionError, say: &mut dyn FnMut(&str)) -> std::time::Duration {
        let cure = error.cure();
        self.number = if self.last == Some(cure) { self.number.saturating_add(1) } else { 1 };
        self.last = Some(cure);
        let text = format!("the first boot {}: {}", attempt::retry_message(error), error.chain());
        if text != self.said {
            say(&text);
            self.said = text;
        }
        cure.delay(self.number, boot::chance())
    }
}
