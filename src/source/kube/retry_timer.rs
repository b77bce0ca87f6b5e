//! Times of repeated requests to the cluster.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::cluster::ClusterError;
use crate::core::values::backoff::{RetryClass, first_retry};
use crate::host::facts::boot;

/// Age at which a connection counts as steady: its end starts the backoff again from the shortest delay.
const STEADY: Duration = Duration::from_secs(60);

/// Backoff of a repeated request.
#[derive(Debug, Default)]
pub(in crate::source) struct RetryTimer {
    /// Class of the last failure.
    class: Option<RetryClass>,
    /// Consecutive failures of this class.
    failures: u32,
    next: Option<Instant>,
    since: Option<Instant>,
}

impl RetryTimer {
    pub(in crate::source) fn is_due(&self) -> bool {
        self.next.is_none_or(|next| next <= Instant::now())
    }

    /// Wait for the time of the next attempt; forever where none is due. Cancel safe.
    pub(in crate::source) async fn wait(&mut self) {
        match self.next {
            Some(next) => {
                sleep_until(next).await;
                self.next = None;
            }
            None => std::future::pending().await,
        }
    }

    /// Set the time of the next attempt. To the time that the server asked for, the own delay is added, so
    /// that nodes that were told the same time do not come back together.
    pub(in crate::source) fn fail(&mut self, error: &ClusterError) {
        self.fail_until(RetryClass::Time, error);
    }

    /// Set the time of the next attempt, for a failure of this class.
    pub(in crate::source) fn fail_until(&mut self, class: RetryClass, error: &ClusterError) {
        let was_steady = self.since.take().is_some_and(|since| since.elapsed() >= STEADY);
        let former = self.class.replace(class).filter(|_| !was_steady);
        self.failures = if former == Some(class) { self.failures.saturating_add(1) } else { 1 };
        let delay = match former {
            None => first_retry(boot::jitter()),
            Some(_) => class.backoff(self.failures, boot::jitter()),
        };
        self.next = Some(Instant::now() + error.retry_after() + delay);
    }

    /// Set the time of the next attempt, which no failure makes urgent.
    pub(in crate::source) fn pause(&mut self, time: Duration) {
        self.next = Some(Instant::now() + time * (750 + boot::jitter() / 2) / 1000);
    }

    /// Return the time that is left until the next attempt.
    #[cfg(test)]
    pub(in crate::source) fn time_left(&self) -> Duration {
        self.next.map_or(Duration::ZERO, |next| next.saturating_duration_since(Instant::now()))
    }

    pub(in crate::source) fn succeed(&mut self) {
        self.since.get_or_insert_with(Instant::now);
        self.next = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::BusyServer;

    fn delay_after(failures: u32, error: &ClusterError) -> Duration {
        let mut timer = RetryTimer::default();
        let before = Instant::now();
        for _ in 0..failures {
            timer.fail(error);
        }
        timer.next.unwrap() - before
    }

    #[test]
    fn retries_wait_for_the_time_that_the_server_asked_for() {
        let asked = Duration::from_secs(100);
        let busy = ClusterError::Busy(BusyServer { status: 429, retry_after: asked });
        assert!((asked..asked + Duration::from_secs(6)).contains(&delay_after(1, &busy)));
        let failed = ClusterError::ServerError("500".into());
        assert!(delay_after(1, &failed) < Duration::from_secs(6));
        assert!((Duration::from_secs(6)..Duration::from_secs(11)).contains(&delay_after(3, &failed)));
    }

    #[test]
    fn failures_of_another_class_are_not_counted() {
        let mut timer = RetryTimer::default();
        let (unreachable, absent) =
            (ClusterError::Unreachable("refused".into()), ClusterError::NotFound("sets".into()));
        for _ in 0..9 {
            timer.fail(&unreachable);
        }
        let shortest =
            |seconds: u64| Duration::from_secs(seconds * 3 / 4)..Duration::from_secs(seconds * 5 / 4 + 1);
        timer.fail_until(RetryClass::Repair, &absent);
        assert!(shortest(15).contains(&timer.time_left()), "{:?}", timer.time_left());
        timer.fail(&unreachable);
        assert!(shortest(2).contains(&timer.time_left()), "{:?}", timer.time_left());
    }

    #[tokio::test]
    async fn time_that_passed_before_the_wait_ends_it() {
        let mut timer = RetryTimer { next: Some(Instant::now()), ..RetryTimer::default() };
        assert!(timer.is_due());
        timer.wait().await;
        assert_eq!(timer.next, None);
    }
}
