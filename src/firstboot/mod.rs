//! First boot of a node: apply the parts of the config that Ignition cannot (OS image, kernel arguments,
//! extensions) before the workload starts, in one transaction and with at most one reboot. Failed attempts
//! are repeated without limit: a new node has no operator who could start another one.

mod attempt;
mod stopwatch;

use attempt::{AttemptOutcome, FirstBootAttempt};
use stopwatch::PhaseStopwatch;

use crate::core::values::backoff::RetryClass;
use crate::core::values::identifiers::ConfigName;
use crate::core::values::profile::Profile;
use crate::host::facts::boot;
use crate::host::{RunningHost, ServiceControl};
use crate::transaction::boot::first_boot;
use crate::transaction::boot::first_boot::{FirstBootConfig, PhaseTiming};
use crate::transaction::{SysrootOpener, TransactionError};

/// Ports of the first boot: deployments, services, console and clock.
pub struct FirstBootPorts<'a> {
    /// Opens a session on the booted sysroot, one per attempt.
    pub sessions: SysrootOpener<'a>,
    /// Reloads and restarts services after a live change.
    pub services: &'a dyn ServiceControl,
    /// Profile that decides which changes can be applied.
    pub profile: Profile,
    /// Prints a line on the console.
    pub say: &'a mut dyn FnMut(&str),
    /// Sleeps until the next attempt.
    pub wait: &'a mut dyn FnMut(std::time::Duration),
}

impl std::fmt::Debug for FirstBootPorts<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FirstBootPorts").field("profile", &self.profile).finish_non_exhaustive()
    }
}

/// Outcome of the first boot.
#[derive(Debug, PartialEq, Eq)]
pub enum FirstBootOutcome {
    /// No first boot to complete: Ignition left no config, or it was applied in an earlier boot.
    Nothing,
    /// The config is applied and verified.
    Complete {
        config: ConfigName,
        /// Durations of the parts, including those before the reboot.
        times: Vec<PhaseTiming>,
    },
    /// A deployment with the config is staged and unlocked: reboot now.
    Reboot { config: ConfigName },
}

/// Complete the first boot, or stage the deployment that a reboot completes. Failed attempts are repeated
/// with backoff; an error is returned only if the root file system cannot be opened.
pub fn run(
    host: &RunningHost,
    mut outside: FirstBootPorts<'_>,
) -> Result<FirstBootOutcome, TransactionError> {
    let mut stopwatch = PhaseStopwatch::resume(first_boot::load_timings(&host.root));
    let mut failures = Failures::default();
    loop {
        match once(host, &mut outside, &mut stopwatch) {
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
    host: &RunningHost,
    outside: &mut FirstBootPorts<'_>,
    stopwatch: &mut PhaseStopwatch,
) -> Result<FirstBootOutcome, TransactionError> {
    let Some(FirstBootConfig { configuration, is_incomplete }) = first_boot::load(&host.root)? else {
        return Ok(FirstBootOutcome::Nothing);
    };
    let config = configuration.object.name.clone();
    if is_incomplete {
        log::warn!("the config server sent no complete config: files and units stay as Ignition wrote them");
    }
    let attempt = FirstBootAttempt { host, configuration: &configuration };
    match attempt.run(outside, stopwatch)? {
        AttemptOutcome::Unlocked => {
            first_boot::save_timings(&host.root, &stopwatch.stop());
            Ok(FirstBootOutcome::Reboot { config })
        }
        AttemptOutcome::Verified => {
            let locked = host.lock()?;
            first_boot::complete(&locked)?;
            Ok(FirstBootOutcome::Complete { config, times: stopwatch.stop() })
        }
    }
}

/// Failed attempts in a row, of one retry class.
#[derive(Debug, Default)]
struct Failures {
    last: Option<RetryClass>,
    number: u32,
    last_message: String,
}

impl Failures {
    /// Count a failure and return the backoff. An error is printed only if it differs from the previous one.
    fn next(&mut self, error: &TransactionError, say: &mut dyn FnMut(&str)) -> std::time::Duration {
        let class = error.retry_class();
        self.number = if self.last == Some(class) { self.number.saturating_add(1) } else { 1 };
        self.last = Some(class);
        let text = format!("the first boot {}: {}", attempt::retry_message(error), error.chain());
        if text != self.last_message {
            say(&text);
            self.last_message = text;
        }
        class.backoff(self.number, boot::jitter())
    }
}
