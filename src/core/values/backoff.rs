//! Backoff: the time between retries of a failed step, by retry class.

use std::time::Duration;

/// The condition under which a retry can succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryClass {
    /// Time alone: a network comes up, a name server answers, another process releases its lock.
    Time,
    /// A repair on the server or on this host: a pull secret, a missing image, space on a disk.
    Repair,
    /// A new desired config: this one cannot be applied.
    Configuration,
}

/// Upper limit of the first delay before a request to a server that a whole fleet shares.
const FIRST_RETRY: Duration = Duration::from_secs(5);

/// Return the delay before the first retry of a request to a server that a whole fleet shares: uniform from
/// nothing to 5 seconds, by the random number `chance` (0 to 1,000). All nodes lose such a server at the same
/// moment; a fixed delay with some jitter would bring them back within one second.
#[must_use]
pub fn first_retry(chance: u32) -> Duration {
    FIRST_RETRY * chance.min(1000) / 1000
}

impl RetryClass {
    /// The shortest and the longest delay between two attempts.
    fn bounds(self) -> (Duration, Duration) {
        let seconds = |from, to| (Duration::from_secs(from), Duration::from_secs(to));
        match self {
            Self::Time => seconds(2, 30),
            Self::Repair => seconds(15, 300),
            Self::Configuration => seconds(60, 600),
        }
    }

    /// The delay after `failures` consecutive failures of this class (the first is 1): exponential up to the
    /// bound, with a jitter of ±25 %.
    ///
    /// `chance` (0 to 1,000) is the caller's random number. The jitter keeps a fleet that lost the same
    /// server at once from retrying at the same moment.
    #[must_use]
    pub fn backoff(self, failures: u32, chance: u32) -> Duration {
        let (shortest, longest) = self.bounds();
        let doubled = shortest.saturating_mul(1 << failures.saturating_sub(1).min(16));
        doubled.min(longest) * (750 + chance.min(1000) / 2) / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_retries_of_a_fleet_spread_over_five_seconds() {
        assert_eq!([0, 500, 1000, 5000].map(|chance| first_retry(chance).as_millis()), [0, 2500, 5000, 5000]);
    }

    #[test]
    fn delays_grow_to_a_bound_and_spread() {
        let delay = |class: RetryClass, failures, chance| class.backoff(failures, chance).as_millis();
        assert_eq!([1, 2, 3].map(|failures| delay(RetryClass::Time, failures, 500)), [2000, 4000, 8000]);
        for (class, longest) in
            [(RetryClass::Time, 30_000), (RetryClass::Repair, 300_000), (RetryClass::Configuration, 600_000)]
        {
            assert_eq!(delay(class, u32::MAX, 500), longest);
            assert_eq!((delay(class, 9, 0), delay(class, 9, 5000)), (longest * 3 / 4, longest * 5 / 4));
        }
    }
}
