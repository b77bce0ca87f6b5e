//! Delays of the state machine in real time, and timers that may be off.

use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until};

use crate::core::daemon::lifecycle::DaemonDelay;
use crate::host::facts::boot;

/// Time after which a drain is reported as late (MCO's value).
const DRAIN_LATE_AFTER: Duration = Duration::from_secs(3600);
/// Time after which an uncordon is reported as late (MCO's value).
const UNCORDON_LATE_AFTER: Duration = Duration::from_secs(600);
/// Longest expected shutdown; the host is observed again if it is still up by then.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1800);
/// Interval in which a boot check without a report is observed again: it may have been killed.
const BOOT_CHECK_INTERVAL: Duration = Duration::from_secs(300);

/// A periodic timer that shifts its later ticks after a late one.
pub(super) fn steady(period: Duration) -> Interval {
    let mut interval = steady_from_now(period);
    interval.reset();
    interval
}

/// A periodic timer as of [`steady`] whose first tick is now.
pub(super) fn steady_from_now(period: Duration) -> Interval {
    let mut interval = interval_at(Instant::now(), period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// Waits until `time`; forever where there is none.
pub(super) async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Waits for the next tick; forever where there is no timer.
pub(super) async fn tick(interval: Option<&mut Interval>) {
    match interval {
        Some(interval) => drop(interval.tick().await),
        None => std::future::pending().await,
    }
}

/// The duration of a delay, with jitter for a backoff.
pub(super) fn duration_of(delay: DaemonDelay) -> Duration {
    match delay {
        DaemonDelay::Backoff(class, failures) => class.backoff(failures, boot::jitter()),
        DaemonDelay::Grant(delay) => delay,
        DaemonDelay::Drain => DRAIN_LATE_AFTER,
        DaemonDelay::Uncordon => UNCORDON_LATE_AFTER,
        DaemonDelay::Reboot => SHUTDOWN_TIMEOUT,
        DaemonDelay::BootCheck => BOOT_CHECK_INTERVAL,
    }
}
