//! Delay of the verification after managed files changed: one for many changes, and ever fewer while the same paths keep
//! changing. The owner of one managed file must not keep the host busy.

use std::collections::BTreeSet;
use std::time::Duration;

/// Time without a change after which the host is verified.
const QUIET: Duration = Duration::from_secs(2);
/// Longest time from a change to the verification, and shortest between two for the same paths.
const LATEST: Duration = Duration::from_secs(10);
/// Longest time between two verifications for the same paths.
const LONGEST: Duration = Duration::from_secs(300);

/// Changes that are not verified yet. Times are from any fixed point.
#[derive(Debug, Clone, Default)]
pub struct VerificationDelay {
    /// First and last change since the last verification.
    since: Option<(Duration, Duration)>,
    /// Paths that changed since the last verification.
    changed: BTreeSet<String>,
    /// Paths that the last verification was due for, and its time.
    verified: BTreeSet<String>,
    verified_at: Option<Duration>,
    /// Shortest time to the next verification, if only these paths change.
    spacing: Duration,
}

impl VerificationDelay {
    /// Note a change of `path` at `now`.
    pub fn record(&mut self, path: &str, now: Duration) {
        let first = self.since.map_or(now, |(first, _)| first);
        self.since = Some((first, now));
        if !self.changed.contains(path) {
            self.changed.insert(path.to_owned());
        }
    }

    /// Return the time of the next verification; `None` without a change.
    #[must_use]
    pub fn due(&self) -> Option<Duration> {
        let (first, last) = self.since?;
        let due = (last + QUIET).min(first + LATEST);
        let earliest = self.verified_at.filter(|_| self.is_repeated()).map(|at| at + self.spacing);
        Some(due.max(earliest.unwrap_or_default()))
    }

    /// Note the verification at `now`, for all changes so far.
    pub fn finish(&mut self, now: Duration) {
        let is_recent = self.verified_at.is_some_and(|at| now.saturating_sub(at) < LONGEST * 2);
        self.spacing = if self.is_repeated() && is_recent {
            (self.spacing * 2).clamp(LATEST, LONGEST)
        } else {
            Duration::ZERO
        };
        self.verified = std::mem::take(&mut self.changed);
        self.verified_at = Some(now);
        self.since = None;
    }

    /// Return true if no path changed but those of the last verification.
    fn is_repeated(&self) -> bool {
        !self.verified.is_empty() && self.changed.is_subset(&self.verified)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times in seconds of the verifications while the path changes at these times in milliseconds.
    fn verifications(changes: impl IntoIterator<Item = (u64, &'static str)>) -> Vec<u64> {
        let (mut delay, mut verified) = (VerificationDelay::default(), Vec::new());
        let mut run_until = |delay: &mut VerificationDelay, now: Duration| {
            while let Some(due) = delay.due().filter(|due| *due <= now) {
                delay.finish(due);
                verified.push(due.as_secs());
            }
        };
        for (millis, path) in changes {
            let now = Duration::from_millis(millis);
            run_until(&mut delay, now);
            delay.record(path, now);
        }
        run_until(&mut delay, Duration::MAX);
        verified
    }

    #[test]
    fn one_verification_follows_many_changes() {
        assert_eq!(verifications([(0, "/a")]), [2]);
        assert_eq!(verifications([(0, "/a"), (500, "/b"), (1_000, "/c")]), [3]);
        assert_eq!(verifications([]), [0_u64; 0]);
    }

    #[test]
    fn verifications_grow_rare_while_the_same_path_keeps_changing() {
        let hour = (0..72_000).map(|number| (number * 50, "/var/home/core/cfg"));
        let verified = verifications(hour);
        assert_eq!(verified.get(..6).unwrap(), [10, 20, 30, 50, 90, 170]);
        assert!(verified.len() < 20, "{verified:?}");
        assert!(verified.windows(2).all(|pair| pair[1] - pair[0] <= 300), "{verified:?}");
    }

    #[test]
    fn another_path_is_verified_soon() {
        let mut changes: Vec<_> = (0..12_000).map(|number| (number * 50, "/var/home/core/cfg")).collect();
        changes.insert(11_000, (550_000, "/etc/ssh/sshd_config"));
        let verified = verifications(changes);
        assert!(verified.iter().any(|at| (550..=560).contains(at)), "{verified:?}");
    }

    #[test]
    fn spacing_ends_after_a_pause() {
        let verified =
            verifications([(0, "/a"), (5_000, "/a"), (20_000, "/a"), (2_000_000, "/a"), (2_005_000, "/a")]);
        assert_eq!(verified.last(), Some(&2_007));
    }
}
