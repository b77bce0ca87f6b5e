//! Trust material of the cluster: applied by jobs of its own, retried with backoff, and the kubelet's restart that
//! waits for a certificate error.

use std::time::Duration;

use tokio::time::Instant;

use crate::core::daemon::lifecycle::{DaemonEvent, DaemonProblem, TrustFailure};
use crate::core::values::tree::ContentDigest;
use crate::daemon::jobs::job_queue::JobInput;
use crate::daemon::jobs::work::WorkJob;
use crate::host::facts::boot;
use crate::source::TrustDelivery;

/// Newest trust material, and the jobs that it still needs.
#[derive(Debug, Default)]
pub(super) struct TrustSync {
    /// Trust material that no job has applied yet.
    newest: Option<TrustDelivery>,
    /// Digest of the applied trust material.
    applied: Option<ContentDigest>,
    running: Option<RunningTrust>,
    failures: u32,
    /// Time of the next attempt after a failure.
    retry_at: Option<Instant>,
    /// Time of a restart of the kubelet that waits.
    restart_at: Option<Instant>,
    is_restart_due: bool,
}

#[derive(Debug)]
enum RunningTrust {
    Apply(TrustDelivery),
    Restart,
}

impl TrustSync {
    /// Take trust material. Returns its event at once where the disk has the same already: a ControllerConfig also
    /// changes in its status.
    pub(super) fn deliver(&mut self, delivery: TrustDelivery) -> Option<DaemonEvent> {
        let is_idle = self.newest.is_none() && self.running.is_none();
        if is_idle && self.applied == Some(delivery.digest) {
            return Some(DaemonEvent::TrustApplied(delivery.version));
        }
        self.newest = Some(delivery);
        (self.failures, self.retry_at) = (0, None);
        None
    }

    /// Return the next job, which the caller begins.
    pub(super) fn next_job(&mut self) -> Option<JobInput> {
        if std::mem::take(&mut self.is_restart_due) {
            self.running = Some(RunningTrust::Restart);
            return Some((WorkJob::RestartKubelet, None));
        }
        let delivery = self.newest.take_if(|_| self.retry_at.is_none())?;
        self.running = Some(RunningTrust::Apply(delivery.clone()));
        Some((WorkJob::ApplyTrust(delivery.version), Some(delivery.document)))
    }

    /// Take the result of a job. `restart` is the time until a restart of the kubelet that waits.
    pub(super) fn finish(&mut self, event: DaemonEvent, restart: Option<Duration>) -> DaemonEvent {
        self.set_restart(restart);
        match event {
            DaemonEvent::Failed(problem) => self.fail(problem),
            event => {
                if let Some(RunningTrust::Apply(delivery)) = self.running.take() {
                    self.applied = Some(delivery.digest);
                }
                self.failures = 0;
                event
            }
        }
    }

    /// Take the failure of a job, which is tried again.
    pub(super) fn fail(&mut self, problem: DaemonProblem) -> DaemonEvent {
        self.failures = self.failures.saturating_add(1);
        let delay = problem.class.retry_class().backoff(self.failures, boot::jitter());
        let next = Some(Instant::now() + delay);
        match self.running.take() {
            Some(RunningTrust::Apply(delivery)) => {
                self.retry_at = next;
                self.newest.get_or_insert(delivery);
            }
            Some(RunningTrust::Restart) => self.restart_at = next,
            None => {}
        }
        log::warn!("trust material of the cluster is not applied: {}", problem.reason);
        DaemonEvent::TrustFailed(TrustFailure { problem, failures: self.failures })
    }

    /// Set the time until a restart of the kubelet that waits.
    pub(super) fn set_restart(&mut self, restart: Option<Duration>) {
        if !self.is_restart_due {
            self.restart_at = restart.map(|left| Instant::now() + left);
        }
    }

    /// Restart the kubelet now, if its restart waits.
    pub(super) fn certificate_failed(&mut self) {
        if self.restart_at.take().is_some() {
            log::info!("a certificate is not trusted: the kubelet's restart with the new CA waits no longer");
            self.is_restart_due = true;
        }
    }

    /// Time of the next attempt or restart.
    pub(super) fn due(&self) -> Option<Instant> {
        self.retry_at.into_iter().chain(self.restart_at).min()
    }

    /// Let what is due at `now` happen with the next job.
    pub(super) fn expire(&mut self, now: Instant) {
        self.retry_at.take_if(|at| *at <= now);
        if self.restart_at.take_if(|at| *at <= now).is_some() {
            self.is_restart_due = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::core::daemon::lifecycle::ProblemClass;
    use crate::core::trust::document::TrustVersion;
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
    fn same_contents_under_another_version_need_no_job() {
        let mut trust = TrustSync::default();
        let first = delivery("1", "a");
        assert_eq!(trust.deliver(first.clone()), None);
        assert_eq!(next_version(&mut trust).as_deref(), Some("1"));
        assert_eq!(trust.finish(applied(&first), None), applied(&first));
        let second = delivery("2", "a");
        assert_eq!(trust.deliver(second.clone()), Some(applied(&second)));
        assert_eq!(next_version(&mut trust), None);
        assert_eq!(trust.deliver(delivery("3", "b")), None);
        assert_eq!(next_version(&mut trust).as_deref(), Some("3"));
    }

    #[test]
    fn failed_attempt_is_repeated_after_its_backoff_unless_newer_material_comes() {
        let mut trust = TrustSync::default();
        trust.deliver(delivery("1", "a"));
        assert!(trust.next_job().is_some());
        assert!(
            matches!(trust.finish(failed(), None), DaemonEvent::TrustFailed(failure) if failure.failures == 1)
        );
        assert_eq!(next_version(&mut trust), None);
        trust.expire(trust.due().unwrap());
        assert_eq!(trust.due(), None);
        assert_eq!(next_version(&mut trust).as_deref(), Some("1"));
        trust.deliver(delivery("2", "b"));
        trust.finish(failed(), None);
        assert!(next_version(&mut trust).is_none(), "the newer one waits for the same backoff");
        trust.deliver(delivery("3", "c"));
        assert_eq!(next_version(&mut trust).as_deref(), Some("3"));
    }

    #[test]
    fn restart_waits_for_a_certificate_error_or_its_time() {
        let mut trust = TrustSync::default();
        trust.certificate_failed();
        assert!(trust.next_job().is_none(), "no restart waits");
        for waits in [true, false] {
            trust.set_restart(Some(Duration::from_secs(3600)));
            assert!(trust.next_job().is_none());
            if waits {
                trust.expire(trust.due().unwrap());
            } else {
                trust.certificate_failed();
            }
            assert_eq!(next_version(&mut trust).as_deref(), Some("RestartKubelet"));
            assert_eq!(trust.finish(DaemonEvent::KubeletRestarted, None), DaemonEvent::KubeletRestarted);
            assert!(trust.next_job().is_none() && trust.due().is_none());
        }
    }

    #[test]
    fn failed_restart_is_tried_again() {
        let mut trust = TrustSync::default();
        trust.set_restart(Some(Duration::ZERO));
        trust.expire(Instant::now());
        assert!(trust.next_job().is_some());
        trust.finish(failed(), Some(Duration::ZERO));
        let due = trust.due().unwrap();
        assert!(due > Instant::now(), "after a backoff, although its time is over");
        trust.expire(due);
        assert_eq!(next_version(&mut trust).as_deref(), Some("RestartKubelet"));
    }
}
