//! Trust material of the cluster: applied by jobs of its own, retried with backoff, and the kubelet's restart that
//! waits for a certificate error.

use std::time::Duration;

use tokio::time::Instant;

use crate::core::daemon::lifecycle::{DaemonEvent, DaemonProblem, TrustFailure};
use crate::daemon::jobs::job_queue::JobInput;
use crate::daemon::jobs::work_job::WorkJob;
use crate::daemon::side_jobs::failed_attempts::FailedAttempts;
use crate::host::facts::boot;
use crate::source::TrustDelivery;

/// Longest time between a lost connection and the restart of the kubelet that it brings forward: the API server of a
/// whole fleet is lost at the same moment.
const RESTART_SPREAD: Duration = Duration::from_secs(120);

/// Newest trust material, and the jobs that it still needs.
#[derive(Debug, Default)]
pub(in crate::daemon) struct TrustSync {
    newest: Option<TrustDelivery>,
    /// True while the disk may differ from `newest`.
    is_due: bool,
    running: Option<TrustJob>,
    attempts: FailedAttempts,
    /// Failure of the source to read a part of the trust material.
    unavailable: Option<TrustFailure>,
    restart: RestartTimes,
}

/// Times of the kubelet's restart.
#[derive(Debug, Default)]
struct RestartTimes {
    /// Time of a restart that waits.
    at: Option<Instant>,
    is_due: bool,
    /// Nothing brings the next attempt forward.
    attempts: FailedAttempts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TrustJob {
    Apply,
    Restart,
}

impl TrustSync {
    /// Take trust material that the source delivered.
    pub(in crate::daemon) fn deliver(&mut self, delivery: TrustDelivery) {
        let is_same = self.newest.as_ref().is_some_and(|newest| newest.digest == delivery.digest);
        if !is_same {
            self.attempts = FailedAttempts::default();
        }
        if delivery.version.is_some() {
            self.unavailable = None;
        }
        (self.newest, self.is_due) = (Some(delivery), true);
    }

    /// Compare the disk with the newest trust material again: something else changed the host.
    pub(in crate::daemon) fn recheck(&mut self) {
        self.is_due |= self.newest.is_some();
    }

    /// Return true if the cluster gives this host trust material.
    pub(in crate::daemon) fn is_active(&self) -> bool {
        self.newest.is_some()
    }

    /// Return the next job, which the caller begins.
    pub(in crate::daemon) fn next_job(&mut self) -> Option<JobInput> {
        if std::mem::take(&mut self.restart.is_due) {
            self.running = Some(TrustJob::Restart);
            return Some((WorkJob::RestartKubelet, None));
        }
        let may_try = self.is_due && self.attempts.retry_at.is_none();
        let delivery = self.newest.as_ref().filter(|_| may_try)?;
        (self.running, self.is_due) = (Some(TrustJob::Apply), false);
        Some((WorkJob::ApplyTrust(delivery.version.clone()), Some(delivery.document.clone())))
    }

    /// Take the result of a job. `restart` is the time until a restart of the kubelet that waits.
    pub(in crate::daemon) fn finish(&mut self, event: DaemonEvent, restart: Option<Duration>) -> DaemonEvent {
        if let DaemonEvent::Failed(problem) = event {
            return self.fail(problem);
        }
        match self.running.take() {
            Some(TrustJob::Restart) => self.restart = RestartTimes::default(),
            Some(TrustJob::Apply) => self.attempts = FailedAttempts::default(),
            None => {}
        }
        self.set_restart(restart);
        match (&event, &self.unavailable) {
            // The rest is applied, and a part still cannot be read.
            (DaemonEvent::TrustApplied(None), Some(failure)) => DaemonEvent::TrustFailed(failure.clone()),
            _ => event,
        }
    }

    /// Take the failure of a job, which is tried again.
    pub(in crate::daemon) fn fail(&mut self, problem: DaemonProblem) -> DaemonEvent {
        let is_of_restart = self.running.take() == Some(TrustJob::Restart);
        let attempts = if is_of_restart { &mut self.restart.attempts } else { &mut self.attempts };
        attempts.fail(problem.class.retry_class());
        let failures = attempts.number;
        self.is_due |= !is_of_restart;
        log::warn!("trust material of the cluster is not applied: {}", problem.reason);
        DaemonEvent::TrustFailed(TrustFailure { problem, failures, is_of_restart })
    }

    /// Take a failure of the source to read trust material.
    pub(in crate::daemon) fn unavailable(&mut self, problem: DaemonProblem) -> DaemonEvent {
        let failures = self.unavailable.as_ref().map_or(0, |failure| failure.failures).saturating_add(1);
        let failure = TrustFailure { problem, failures, is_of_restart: false };
        self.unavailable = Some(failure.clone());
        DaemonEvent::TrustFailed(failure)
    }

    /// Set the time until a restart of the kubelet that waits.
    pub(in crate::daemon) fn set_restart(&mut self, left: Option<Duration>) {
        let times = &mut self.restart;
        if times.is_due || times.attempts.retry_at.is_some() {
            return;
        }
        let at = left.map(|left| Instant::now() + left);
        times.at = at.map(|at| times.at.map_or(at, |earlier| earlier.min(at)));
    }

    /// Bring a restart of the kubelet that waits forward: with a certificate that is not trusted the kubelet needs it now.
    /// After a lost connection it may need it, since the daemon itself connects again with the new CA.
    pub(in crate::daemon) fn connection_failed(&mut self, is_untrusted: bool) {
        let times = &mut self.restart;
        let Some(at) = times.at else { return };
        if is_untrusted {
            log::info!("a certificate is not trusted: the kubelet's restart with the new CA waits no longer");
            (times.at, times.is_due) = (None, true);
        } else {
            times.at = Some(at.min(Instant::now() + RESTART_SPREAD * boot::jitter() / 1000));
        }
    }

    /// Time of the next attempt or restart.
    pub(in crate::daemon) fn due(&self) -> Option<Instant> {
        let times = [self.attempts.retry_at, self.restart.at, self.restart.attempts.retry_at];
        times.into_iter().flatten().min()
    }

    /// Let the work that is due at `now` happen with the next job.
    pub(in crate::daemon) fn expire(&mut self, now: Instant) {
        let take = |time: &mut Option<Instant>| time.take_if(|at| *at <= now).is_some();
        take(&mut self.attempts.retry_at);
        let times = &mut self.restart;
        times.is_due |= take(&mut times.at) | take(&mut times.attempts.retry_at);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::core::daemon::lifecycle::ProblemClass;
    use crate::core::trust::document::TrustVersion;
    use crate::core::values::tree::ContentDigest;
    use crate::source::FetchedConfig;

    fn delivery(resource_version: &str, contents: &str) -> TrustDelivery {
        let resource_version = resource_version.to_owned();
        TrustDelivery {
            version: Some(TrustVersion { resource_version, rotation: String::new() }),
            digest: ContentDigest::of(contents.as_bytes()),
            document: Arc::new(FetchedConfig::default()),
        }
    }

    fn applied(delivery: &TrustDelivery) -> DaemonEvent {
        DaemonEvent::TrustApplied(delivery.version.clone())
    }

    fn failed() -> DaemonEvent {
        DaemonEvent::Failed(DaemonProblem { class: ProblemClass::Host, reason: "x".into() })
    }

    /// Version of the next job's trust material.
    fn next_version(trust: &mut TrustSync) -> Option<String> {
        match trust.next_job()?.0 {
            WorkJob::ApplyTrust(version) => version.map(|version| version.resource_version),
            job => Some(format!("{job:?}")),
        }
    }

    #[test]
    fn each_delivery_and_each_change_of_the_host_leads_to_one_job() {
        let mut trust = TrustSync::default();
        trust.recheck();
        assert_eq!(next_version(&mut trust), None, "nothing was delivered");
        let first = delivery("1", "a");
        trust.deliver(first.clone());
        assert_eq!(next_version(&mut trust).as_deref(), Some("1"));
        assert_eq!(trust.finish(applied(&first), None), applied(&first));
        assert_eq!(next_version(&mut trust), None);
        trust.deliver(delivery("2", "a"));
        assert_eq!(next_version(&mut trust).as_deref(), Some("2"));
        trust.deliver(delivery("3", "b"));
        trust.finish(applied(&delivery("2", "a")), None);
        assert_eq!(next_version(&mut trust).as_deref(), Some("3"), "delivered while a job ran");
        trust.finish(applied(&delivery("3", "b")), None);
        trust.recheck();
        assert_eq!(next_version(&mut trust).as_deref(), Some("3"));
    }

    #[test]
    fn failed_attempt_is_repeated_after_its_backoff_unless_other_material_comes() {
        let mut trust = TrustSync::default();
        trust.deliver(delivery("1", "a"));
        for failures in 1..3 {
            assert!(trust.next_job().is_some());
            let failed = trust.finish(failed(), None);
            assert!(matches!(failed, DaemonEvent::TrustFailed(failure) if failure.failures == failures));
            assert_eq!(next_version(&mut trust), None);
            trust.deliver(delivery("2", "a"));
            assert_eq!(next_version(&mut trust), None, "the same material waits for its backoff");
            trust.expire(trust.due().unwrap());
            assert_eq!(trust.due(), None);
        }
        trust.deliver(delivery("3", "b"));
        assert_eq!(next_version(&mut trust).as_deref(), Some("3"));
    }

    #[test]
    fn restart_waits_for_a_certificate_error_or_its_time() {
        let mut trust = TrustSync::default();
        trust.connection_failed(true);
        assert!(trust.next_job().is_none(), "no restart waits");
        for waits in [true, false] {
            trust.set_restart(Some(Duration::from_secs(3600)));
            assert!(trust.next_job().is_none());
            if waits {
                trust.expire(trust.due().unwrap());
            } else {
                trust.connection_failed(true);
            }
            assert_eq!(next_version(&mut trust).as_deref(), Some("RestartKubelet"));
            assert_eq!(trust.finish(DaemonEvent::KubeletRestarted, None), DaemonEvent::KubeletRestarted);
            assert!(trust.next_job().is_none() && trust.due().is_none());
        }
    }

    #[test]
    fn lost_connection_brings_a_restart_forward() {
        let mut trust = TrustSync::default();
        trust.set_restart(Some(Duration::from_secs(3600)));
        trust.connection_failed(false);
        let soon = Instant::now() + RESTART_SPREAD;
        assert!(trust.due().unwrap() <= soon);
        trust.set_restart(Some(Duration::from_secs(3600)));
        assert!(trust.due().unwrap() <= soon, "the end of another job does not put it off again");
    }

    #[test]
    fn failed_restart_is_tried_again_after_its_backoff_only() {
        let mut trust = TrustSync::default();
        trust.set_restart(Some(Duration::ZERO));
        trust.expire(Instant::now());
        assert!(trust.next_job().is_some());
        trust.finish(failed(), Some(Duration::ZERO));
        let due = trust.due().unwrap();
        assert!(due > Instant::now(), "after a backoff, although its time is over");
        trust.connection_failed(true);
        trust.set_restart(Some(Duration::ZERO));
        assert!(trust.next_job().is_none());
        assert_eq!(trust.due(), Some(due));
        trust.expire(due);
        assert_eq!(next_version(&mut trust).as_deref(), Some("RestartKubelet"));
    }
    #[test]
    fn part_that_cannot_be_read_counts_although_the_rest_is_applied() {
        let mut trust = TrustSync::default();
        let problem = || DaemonProblem { class: ProblemClass::Transient, reason: "denied".into() };
        for failures in 1..3 {
            trust.deliver(TrustDelivery { version: None, ..delivery("1", "a") });
            trust.unavailable(problem());
            assert!(trust.next_job().is_some());
            let event = trust.finish(DaemonEvent::TrustApplied(None), None);
            assert!(matches!(event, DaemonEvent::TrustFailed(failure) if failure.failures == failures));
        }
        let complete = delivery("1", "b");
        trust.deliver(complete.clone());
        assert!(trust.next_job().is_some());
        assert_eq!(trust.finish(applied(&complete), None), applied(&complete));
    }
}
