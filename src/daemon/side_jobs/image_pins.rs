//! Pinned image sets of the cluster: pulled by jobs beside all others, in a process of their own, and pinned by a job in
//! its turn.

use std::sync::Arc;

use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use crate::core::daemon::lifecycle::{DaemonEvent, DaemonProblem};
use crate::core::pinned_images::pin_state::PinState;
use crate::core::values::backoff::RetryClass;
use crate::daemon::jobs::job_queue::JobInput;
use crate::daemon::jobs::work_job::WorkJob;
use crate::daemon::jobs::work_process::{WorkCommand, WorkProcess};
use crate::daemon::jobs::work_result::WorkResult;
use crate::daemon::side_jobs::failed_attempts::FailedAttempts;
use crate::source::{FetchedConfig, PinDelivery};

/// Newest pinned image sets, and the jobs that they still need.
pub(in crate::daemon) struct ImagePins {
    command: WorkCommand,
    process: WorkProcess,
    done: UnboundedSender<WorkResult>,
    newest: Option<PinDelivery>,
    due: Option<PinStage>,
    is_running: bool,
    /// True if the running job works for sets that are not the newest.
    is_outdated: bool,
    attempts: FailedAttempts,
    state: PinState,
}

/// Stage of the work for one delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PinStage {
    /// Look for the images, and pull those that are missing.
    Pull,
    Pin,
}

impl ImagePins {
    /// Results of the jobs that pull are sent to `done`.
    pub(in crate::daemon) fn new(command: WorkCommand, done: UnboundedSender<WorkResult>) -> Self {
        Self {
            command,
            process: WorkProcess::default(),
            done,
            newest: None,
            due: None,
            is_running: false,
            is_outdated: false,
            attempts: FailedAttempts::default(),
            state: PinState::default(),
        }
    }

    /// Take the sets that the source delivered; returns the state that is to be reported. `has_drop_in` tells whether the
    /// container runtime keeps images.
    pub(in crate::daemon) fn deliver(
        &mut self,
        delivery: PinDelivery,
        has_drop_in: bool,
    ) -> Option<DaemonEvent> {
        if self.newest.as_ref().is_some_and(|newest| newest.digest == delivery.digest) {
            return None;
        }
        let is_first = self.newest.is_none();
        let is_idle = is_first && delivery.unpulled.sets.is_empty() && !has_drop_in;
        self.due = (!is_idle).then_some(PinStage::Pull);
        self.attempts = FailedAttempts::default();
        self.state = if is_idle { delivery.unpulled.clone().pinned() } else { delivery.unpulled.clone() };
        self.newest = Some(delivery);
        if self.is_running {
            self.is_outdated = true;
            self.process.cancel();
        }
        // After a start of the daemon, the images are probably there.
        (is_idle || !is_first).then(|| DaemonEvent::PinsChanged(self.state.clone()))
    }

    /// Look again whether all is in place: something else changed the host.
    pub(in crate::daemon) fn recheck(&mut self) {
        let has_sets = self.newest.as_ref().is_some_and(|newest| !newest.unpulled.sets.is_empty());
        if has_sets && !self.is_running {
            self.due.get_or_insert(PinStage::Pull);
        }
    }

    /// Start the job that runs beside all others, if it is due.
    pub(in crate::daemon) fn begin(&mut self) -> Result<(), DaemonProblem> {
        if self.due != Some(PinStage::Pull) {
            return Ok(());
        }
        let Some(document) = self.take_due() else { return Ok(()) };
        self.process.begin(&self.command, WorkJob::PullImages, Some(document), self.done.clone())
    }

    /// Return the next job that has its turn between all others, which the caller begins.
    pub(in crate::daemon) fn next_job(&mut self) -> Option<JobInput> {
        if self.due != Some(PinStage::Pin) {
            return None;
        }
        self.take_due().map(|document| (WorkJob::PinImages, Some(document)))
    }

    /// Take the stage that is due as the running one, unless it has to wait; returns its document.
    fn take_due(&mut self) -> Option<Arc<FetchedConfig>> {
        if self.is_running || self.attempts.retry_at.is_some() {
            return None;
        }
        let document = self.newest.as_ref()?.document.clone();
        self.is_running = self.due.take().is_some();
        self.is_running.then_some(document)
    }

    /// Take the progress of the running job; returns the state that is to be reported.
    pub(in crate::daemon) fn progress(&mut self, event: DaemonEvent) -> Option<DaemonEvent> {
        let DaemonEvent::PinsChanged(state) = event else { return None };
        if self.is_outdated {
            return None;
        }
        // What failed before counts until all is tried again.
        let failure = state.failure.clone().or_else(|| self.state.failure.take());
        self.state = PinState { failure, ..state };
        Some(DaemonEvent::PinsChanged(self.state.clone()))
    }

    /// Take the result of a job; returns the state that is to be reported.
    pub(in crate::daemon) fn finish(&mut self, event: DaemonEvent) -> Option<DaemonEvent> {
        self.is_running = false;
        if std::mem::take(&mut self.is_outdated) {
            return None;
        }
        match event {
            DaemonEvent::PinsChanged(state) => self.changed(state),
            DaemonEvent::Failed(problem) => self.fail(&problem),
            _ => return None,
        }
        Some(DaemonEvent::PinsChanged(self.state.clone()))
    }

    fn changed(&mut self, state: PinState) {
        self.due = if state.is_pinned {
            self.attempts = FailedAttempts::default();
            None
        } else if state.present == state.images {
            Some(PinStage::Pin)
        } else {
            self.attempts.fail(RetryClass::Repair);
            Some(PinStage::Pull)
        };
        self.state = state;
    }

    fn fail(&mut self, problem: &DaemonProblem) {
        log::warn!("pinned images are not on the node: {}", problem.reason);
        self.attempts.fail(problem.class.retry_class());
        self.due = Some(PinStage::Pull);
        if problem.class.is_reported_after(self.attempts.number) {
            self.state = std::mem::take(&mut self.state).failed(&problem.reason);
        }
    }

    /// End the job that pulls.
    pub(in crate::daemon) fn cancel(&self) {
        self.process.cancel();
    }

    /// Time of the next attempt.
    pub(in crate::daemon) fn due(&self) -> Option<Instant> {
        self.attempts.retry_at
    }

    /// Let the work that is due at `now` happen with the next job.
    pub(in crate::daemon) fn expire(&mut self, now: Instant) {
        self.attempts.retry_at.take_if(|at| *at <= now);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;
    use crate::core::daemon::lifecycle::ProblemClass;
    use crate::core::pinned_images::pin_state::SetState;
    use crate::core::values::profile::Profile;
    use crate::core::values::tree::ContentDigest;

    fn pins() -> ImagePins {
        let command = WorkCommand { arguments: Vec::new(), profile: Profile::Native, is_in_cluster: true };
        ImagePins::new(command, unbounded_channel().0)
    }

    fn delivery(contents: &str, images: usize) -> PinDelivery {
        let digest = ContentDigest::of(contents.as_bytes());
        PinDelivery { digest, document: Arc::default(), unpulled: state(images, 0, 0) }
    }

    fn state(images: usize, present: usize, failed: usize) -> PinState {
        let failure = (failed > 0).then(|| "no route".to_owned());
        let set = SetState { name: "s".to_owned(), generation: 1, is_pinned: false, failure: None };
        PinState { sets: vec![set], images, present, failed, is_pinned: false, failure }
    }

    /// Let the stage that is due end with this state; returns the stage after it.
    fn end(pins: &mut ImagePins, state: PinState) -> Option<PinStage> {
        assert!(pins.take_due().is_some());
        assert_eq!(
            pins.finish(DaemonEvent::PinsChanged(state.clone())),
            Some(DaemonEvent::PinsChanged(state))
        );
        pins.due
    }

    #[test]
    fn images_are_pulled_and_pinned_and_looked_for_again_once_the_host_changed() {
        let mut pins = pins();
        assert_eq!(pins.deliver(delivery("a", 3), false), None, "before anything is known");
        assert!(pins.take_due().is_some());
        assert!(pins.progress(DaemonEvent::PinsChanged(state(3, 1, 0))).is_some());
        assert!(pins.finish(DaemonEvent::PinsChanged(state(3, 3, 0))).is_some());
        assert_eq!(pins.due, Some(PinStage::Pin));
        assert!(pins.next_job().is_some() && pins.next_job().is_none());
        let pinned = DaemonEvent::PinsChanged(state(3, 3, 0).pinned());
        assert_eq!(pins.finish(pinned.clone()), Some(pinned));
        assert_eq!(pins.due, None);
        assert_eq!(pins.deliver(delivery("a", 3), true), None, "the same sets again");
        assert_eq!(pins.due, None);
        pins.recheck();
        assert_eq!(pins.due, Some(PinStage::Pull));
    }

    #[test]
    fn failed_images_and_failed_jobs_wait_for_their_backoff_unless_other_sets_come() {
        let mut pins = pins();
        pins.deliver(delivery("a", 2), false);
        assert_eq!(end(&mut pins, state(2, 1, 1)), Some(PinStage::Pull));
        pins.recheck();
        assert!(pins.take_due().is_none());
        pins.expire(pins.due().unwrap());
        assert!(pins.take_due().is_some());
        let Some(DaemonEvent::PinsChanged(going_on)) =
            pins.progress(DaemonEvent::PinsChanged(state(2, 1, 0)))
        else {
            panic!("progress is reported")
        };
        assert_eq!(going_on.failure.as_deref(), Some("no route"), "until all is tried again");
        let failed = |pins: &mut ImagePins, class| {
            let problem = DaemonProblem { class, reason: "no CRI-O".into() };
            match pins.finish(DaemonEvent::Failed(problem)) {
                Some(DaemonEvent::PinsChanged(state)) => state,
                other => panic!("{other:?}"),
            }
        };
        let after = failed(&mut pins, ProblemClass::Transient);
        assert_eq!(after.failure.as_deref(), Some("no route"), "a busy host is none to report");
        let after = failed(&mut pins, ProblemClass::Host);
        assert_eq!([after.present, after.images], [1, 2], "what is known about the node stays known");
        assert_eq!(after.failure.as_deref(), Some("no CRI-O"));
        assert!(pins.due().is_some() && pins.take_due().is_none());
        let unpulled = Some(DaemonEvent::PinsChanged(state(1, 0, 0)));
        assert_eq!(
            pins.deliver(delivery("b", 1), false),
            unpulled,
            "the node has no longer what it shall have"
        );
        assert!(pins.take_due().is_some());
    }

    #[test]
    fn result_for_sets_that_are_not_the_newest_does_not_count() {
        let mut pins = pins();
        pins.deliver(delivery("a", 1), false);
        assert!(pins.take_due().is_some());
        pins.deliver(delivery("b", 1), false);
        assert!(pins.take_due().is_none(), "one at a time");
        assert_eq!(pins.progress(DaemonEvent::PinsChanged(state(1, 1, 0))), None);
        assert_eq!(pins.finish(DaemonEvent::PinsChanged(state(1, 1, 0).pinned())), None);
        assert_eq!(pins.due, Some(PinStage::Pull));
    }

    #[test]
    fn node_without_sets_has_work_only_if_images_were_pinned() {
        let without =
            || PinDelivery { unpulled: PinState { sets: Vec::new(), ..state(0, 0, 0) }, ..delivery("", 0) };
        let mut pins = super::tests::pins();
        let reported = pins.deliver(without(), false);
        assert!(matches!(reported, Some(DaemonEvent::PinsChanged(state)) if state.is_idle()));
        assert_eq!(pins.due, None);
        let mut pins = super::tests::pins();
        assert_eq!(pins.deliver(without(), true), None);
        assert_eq!(pins.due, Some(PinStage::Pull));
    }
}
