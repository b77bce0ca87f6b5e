//! Durations of the parts of a first boot.

use std::time::Duration;

use crate::host::facts::boot;
use crate::transaction::boot::first_boot::PhaseTiming;

/// Measures one part at a time, by the uptime: the wall clock jumps when the time is first synchronized.
#[derive(Debug)]
pub(super) struct PhaseStopwatch {
    times: Vec<PhaseTiming>,
    running: Option<(String, Duration)>,
}

impl PhaseStopwatch {
    /// Continue with the parts that were measured before the reboot.
    pub(super) fn resume(times: Vec<PhaseTiming>) -> Self {
        Self { times, running: None }
    }

    /// Start a part and end the current one; no effect if `phase` is the current part.
    pub(super) fn begin(&mut self, phase: &str) {
        if self.running.as_ref().is_some_and(|(running, _)| running == phase) {
            return;
        }
        self.end();
        self.running = Some((phase.to_owned(), boot::uptime()));
    }

    fn end(&mut self) {
        let Some((phase, since)) = self.running.take() else { return };
        let took = boot::uptime().saturating_sub(since);
        let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        match self.times.iter_mut().find(|time| time.phase == phase) {
            Some(time) => time.milliseconds = time.milliseconds.saturating_add(milliseconds),
            None => self.times.push(PhaseTiming { phase, milliseconds }),
        }
    }

    /// End the current part and return all durations.
    pub(super) fn stop(&mut self) -> Vec<PhaseTiming> {
        self.end();
        self.times.clone()
    }
}
