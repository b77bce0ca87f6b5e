//! Results of jobs: events of the lifecycle, watched paths, and the turn of trust material and pinned images between two
//! jobs.

use std::path::PathBuf;

use tokio::time::Instant;

use super::Daemon;
use super::host_watch::HostWatch;
use super::jobs::job_queue::JobKind;
use super::jobs::work_result::{HostFacts, WorkResult};
use crate::core::daemon::lifecycle::{DaemonEvent, DaemonPhase};
use crate::core::pinned_images::drop_in::DROP_IN;
use crate::core::values::causes::chain;
use crate::core::values::paths::{CLOUD_CA, KUBELET_CA, MERGED_PULL_SECRET, REGISTRY_CAS};
use crate::transaction::trust::kubelet_restart;

/// Trust material that is watched like managed files, whatever the config lists.
const WATCHED_TRUST: [&str; 4] = [KUBELET_CA, CLOUD_CA, MERGED_PULL_SECRET, REGISTRY_CAS];

impl Daemon {
    /// Take the progress or the result of a job that runs beside all others.
    pub(super) fn finish_pulls(&mut self, finished: WorkResult) {
        if !finished.is_progress {
            self.finish_pins(finished.event);
            return self.begin_side_jobs();
        }
        if let Some(event) = self.pins.progress(finished.event) {
            self.handle(event);
        }
    }

    pub(super) fn finish_work(&mut self, mut finished: WorkResult, watch: &mut HostWatch) {
        let (kind, event) = self.jobs.finish(finished.event);
        finished.event = event;
        // The work may have enabled, disabled or restarted the kubelet.
        self.samples.host_changed.notify_one();
        match kind {
            JobKind::Lifecycle => self.finish_lifecycle_work(finished, watch),
            JobKind::Trust => {
                let restart = kubelet_restart::time_left(&self.root);
                let event = self.trust.finish(finished.event, restart);
                self.begin_waiting_job();
                self.handle(event);
                self.begin_side_jobs();
            }
            JobKind::Grant => {
                self.grant_end.finish(&finished.event);
                self.begin_waiting_job();
                self.begin_side_jobs();
            }
            JobKind::Pins => {
                self.begin_waiting_job();
                self.finish_pins(finished.event);
                self.begin_side_jobs();
            }
        }
    }

    /// Start the job of the lifecycle that waited for the end of another one.
    fn begin_waiting_job(&mut self) {
        if let Err(problem) = self.jobs.begin_waiting() {
            self.handle(DaemonEvent::Failed(problem));
        }
    }

    fn finish_lifecycle_work(&mut self, finished: WorkResult, watch: &mut HostWatch) {
        self.metrics.record_work(&finished);
        if let Some(figures) = finished.findings.comparison {
            self.repairs.record(figures.repaired, self.started.elapsed());
        }
        let has_released_block = finished.findings.has_released_block;
        self.releases_block &= !has_released_block;
        if let Some(facts) = finished.findings.facts {
            if *self.irreconcilable != *facts.origin.irreconcilable_changes {
                self.irreconcilable = facts.origin.irreconcilable_changes.clone().into();
            }
            self.update.find(facts.update.clone());
            self.watch_managed(facts, watch);
        }
        if matches!(
            finished.event,
            DaemonEvent::Applied | DaemonEvent::Verified | DaemonEvent::Drifted { .. }
        ) {
            self.trust.recheck();
            self.pins.recheck();
        }
        // Before the next job of the lifecycle, which may take its time; and after a phase that had it wait.
        self.begin_side_jobs();
        self.handle(finished.event);
        // The published state names no block that a verification has released.
        if has_released_block && self.lifecycle.blocked.is_some() {
            self.handle(DaemonEvent::StateChanged);
        }
        self.begin_side_jobs();
    }

    /// Return the time at which a path may be repaired again that was repaired too often; `None` in a phase that does not
    /// repair it, so that its end is waited for.
    pub(super) fn repair_due(&self) -> Option<Instant> {
        let repairs = matches!(
            self.lifecycle.phase,
            DaemonPhase::Done | DaemonPhase::Drifted { .. } | DaemonPhase::BackingOff { .. }
        );
        self.repairs.due().filter(|_| repairs).map(|due| self.started + due)
    }

    /// Verify the host, now that a path may be repaired again.
    pub(super) fn repair_again(&mut self) {
        self.repairs.forget(self.started.elapsed());
        self.handle(DaemonEvent::FilesChanged);
    }

    /// Watch the managed files, and trust material and pinned images of the cluster where it gives some.
    fn watch_managed(&self, facts: HostFacts, watch: &mut HostWatch) {
        let HostFacts { mut managed, began, .. } = facts;
        if self.trust.is_active() {
            managed.extend(WATCHED_TRUST.map(PathBuf::from));
        }
        // Before the cluster has said whether it pins images: the next verification may be months away.
        managed.insert(DROP_IN.into());
        if let Err(error) = watch.manage(managed, began) {
            log::warn!(
                "cannot watch the managed files: {error}; drift is detected at the next update only",
                error = chain(&error)
            );
        }
    }
}
