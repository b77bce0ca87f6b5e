//! Deadline of the running job. Every wait inside a job has a deadline of its own; this one ends what none of them covers.

use std::time::Duration;

use tokio::time::Instant;

use crate::core::daemon::lifecycle::{DaemonEvent, DaemonProblem, ProblemClass};
use crate::daemon::jobs::work_process::WorkProcess;

/// Time between SIGTERM and SIGKILL for a job that exceeded it.
const KILL_AFTER: Duration = Duration::from_secs(60);

/// Time at which the running job has to end.
#[derive(Debug)]
pub(in crate::daemon) struct JobDeadline {
    /// Longest time of one job.
    timeout: Duration,
    at: Option<Instant>,
    is_overdue: bool,
}

impl JobDeadline {
    /// Allow each job `timeout`.
    pub(in crate::daemon) fn of(timeout: Duration) -> Self {
        Self { timeout, at: None, is_overdue: false }
    }

    /// Start to count for a job that begins now.
    pub(in crate::daemon) fn begin(&mut self) {
        (self.at, self.is_overdue) = (Some(Instant::now() + self.timeout), false);
    }

    /// Time of the next expiry; `None` while no job runs.
    pub(in crate::daemon) fn at(&self) -> Option<Instant> {
        self.at
    }

    /// End a job that exceeded its deadline: first by SIGTERM, then by SIGKILL. The next one recovers what it
    /// interrupts.
    pub(in crate::daemon) fn expire(&mut self, process: &WorkProcess) {
        process.end(self.is_overdue);
        (self.at, self.is_overdue) = (Some(Instant::now() + KILL_AFTER), true);
    }

    /// Return the event of a job that ended: its own, or the failure to meet its deadline.
    pub(in crate::daemon) fn finish(&mut self, event: DaemonEvent) -> DaemonEvent {
        if !std::mem::replace(self, Self::of(self.timeout)).is_overdue {
            return event;
        }
        DaemonEvent::Failed(DaemonProblem {
            class: ProblemClass::Transient,
            reason: format!(
                "the work did not end within {} seconds (setting `limits.job-timeout`); see the journal of flameholder-daemon for what it waited for",
                self.timeout.as_secs()
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_that_was_ended_at_its_deadline_is_a_transient_failure() {
        let mut deadline = JobDeadline::of(Duration::from_secs(7200));
        assert!(deadline.at().is_none());
        deadline.begin();
        assert_eq!(deadline.finish(DaemonEvent::Verified), DaemonEvent::Verified);
        deadline.begin();
        let before = deadline.at().unwrap();
        deadline.expire(&WorkProcess::default());
        assert!(deadline.at().unwrap() < before, "SIGKILL follows soon");
        let failed = deadline.finish(DaemonEvent::Verified);
        assert!(matches!(failed, DaemonEvent::Failed(problem) if problem.class == ProblemClass::Transient));
        assert!(deadline.at().is_none());
    }
}
