//! Jobs beside those of the lifecycle, each with its own backoff: trust material, pinned images, the end of a grant, the
//! renewal of its slot, notifications.

mod failed_attempts;
pub(super) mod grant_end;
pub(super) mod image_pins;
pub(super) mod notifications;
pub(super) mod slot_renewal;
pub(super) mod trust_sync;

use tokio::time::Instant;

use super::Daemon;
use super::jobs::job_queue::JobKind;
use crate::core::daemon::lifecycle::{DaemonEvent, DaemonPhase};

impl Daemon {
    /// Return the time of the next job beside those of the lifecycle.
    pub(super) fn side_job_time(&self) -> Option<Instant> {
        let times = [self.trust.due(), self.pins.due(), self.grant_end.due(), self.renewal.due()];
        times.into_iter().flatten().min()
    }

    pub(super) fn side_job_due(&mut self) {
        let now = Instant::now();
        self.trust.expire(now);
        self.pins.expire(now);
        self.grant_end.expire(now);
        self.renewal.expire(now);
        self.begin_side_jobs();
    }

    /// Start the jobs of trust material and pinned images that are due, as far as no other job runs. A host that is about to
    /// reboot gets them afterwards: its kubelet and its container runtime start anew then.
    pub(super) fn begin_side_jobs(&mut self) {
        let is_leaving = matches!(
            self.lifecycle.phase,
            DaemonPhase::Rebooting { inhibited_by: None, .. }
                | DaemonPhase::ShuttingDown { .. }
                | DaemonPhase::Stopping
        );
        if is_leaving {
            return;
        }
        if let Err(problem) = self.pins.begin() {
            self.finish_pins(DaemonEvent::Failed(problem));
        }
        if self.jobs.is_running() {
            return;
        }
        self.begin_grant_end();
        if self.jobs.is_running() {
            return;
        }
        if let Some(job) = self.trust.next_job() {
            if let Err(problem) = self.jobs.begin(JobKind::Trust, job) {
                let event = self.trust.fail(problem);
                self.handle(event);
            }
        } else if let Some(job) = self.pins.next_job()
            && let Err(problem) = self.jobs.begin(JobKind::Pins, job)
        {
            self.finish_pins(DaemonEvent::Failed(problem));
        }
    }

    /// Start the job that ends a grant, if one has ended and no other job runs.
    pub(super) fn begin_grant_end(&mut self) {
        if self.jobs.is_running() {
            return;
        }
        if let Some(job) = self.grant_end.next_job(&self.root, &self.lifecycle)
            && let Err(problem) = self.jobs.begin(JobKind::Grant, job)
        {
            self.grant_end.finish(&DaemonEvent::Failed(problem));
        }
    }

    /// Take the result of a job of pinned images.
    pub(super) fn finish_pins(&mut self, event: DaemonEvent) {
        if let Some(event) = self.pins.finish(event) {
            self.handle(event);
        }
    }
}
