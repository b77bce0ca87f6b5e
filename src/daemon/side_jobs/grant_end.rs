//! End of a grant: its slot is released once the update is confirmed, by a job of its own that is repeated until it
//! succeeds.

use tokio::time::Instant;

use crate::core::daemon::grant::{has_ended, is_confirmed};
use crate::core::daemon::lifecycle::{DaemonEvent, DaemonPhase, Lifecycle};
use crate::core::values::identifiers::BootId;
use crate::daemon::jobs::job_queue::JobInput;
use crate::daemon::jobs::work_job::WorkJob;
use crate::daemon::side_jobs::failed_attempts::FailedAttempts;
use crate::host::Root;
use crate::transaction::grant::stored_grant;
use crate::transaction::state::settings::settings_or_default;

/// Attempts to end a grant.
#[derive(Debug)]
pub(in crate::daemon) struct GrantEnd {
    boot: BootId,
    attempts: FailedAttempts,
}

impl GrantEnd {
    /// Create it for this boot.
    pub(in crate::daemon) fn new(boot: BootId) -> Self {
        Self { boot, attempts: FailedAttempts::default() }
    }

    /// Return the next job, which the caller begins; `None` unless a stored grant has ended.
    pub(in crate::daemon) fn next_job(&self, root: &Root, lifecycle: &Lifecycle) -> Option<JobInput> {
        if self.attempts.retry_at.is_some() {
            return None;
        }
        let (has_ended, is_confirmed) = match stored_grant::load(root) {
            Ok(grant) => {
                let grant = grant?;
                let keeps = settings_or_default(root).reboot_lock.keeps_after_rollback();
                (has_ended(lifecycle, &grant, &self.boot, keeps), is_confirmed(lifecycle, &grant))
            }
            // The job reports it, and sets a damaged one aside.
            Err(_) => (lifecycle.phase == DaemonPhase::Done, false),
        };
        has_ended.then_some((WorkJob::EndGrant { is_confirmed }, None))
    }

    /// Take the result of a job; a failed one is repeated.
    pub(in crate::daemon) fn finish(&mut self, event: &DaemonEvent) {
        match event {
            DaemonEvent::Failed(problem) => {
                log::warn!("{}", problem.reason);
                self.attempts.fail(problem.class.retry_class());
            }
            _ => self.attempts = FailedAttempts::default(),
        }
    }

    /// Time of the next attempt.
    pub(in crate::daemon) fn due(&self) -> Option<Instant> {
        self.attempts.retry_at
    }

    /// Let an attempt that is due at `now` happen with the next job.
    pub(in crate::daemon) fn expire(&mut self, now: Instant) {
        self.attempts.retry_at.take_if(|at| *at <= now);
    }
}
