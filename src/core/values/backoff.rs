//! How long to wait before something is tried again that failed, by what would have to change.

use std::time::Duration;

/// What has to change before it can succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryClass {
    /// Time: a network comes up, a name server answers, somebody else is done.
    Time,
    /// Something on the other side, or on this host: a pull secret, an image, space on a disk.
    Repair,
    /// The configuration itself.
    Configuration,
}

impl RetryClass {
    /// The shortest and the longest time between two attempts.
    fn bounds(self) -> (Duration, Duration) {
        let seconds = |from, to| (Duration::from_secs(from), Duration::from_secs(to));
        match self {
            Self::Time => seconds(2, 30),
            Self::Repair => seconds(15, 300),
            Self::Configuration => seconds(60, 600),
        }
    }

    /// How long to wait after `failures` attempts in a row that failed for want of this, the first being 1: twice as long
    /// each time up to a bound, and a quarter more or less, as `chance` (of 0 to 1,000) says. So many hosts that lost the
    /// same thing at once do not ask for it at once.
    #[must_use]
    pub fn delay(self, failures: u32, chance: u32) -> Duration {
        let (shortest, longest) = self.bounds();
        let doubled = shortest.saturating_mul(1 << failures.saturating_sub(1).min(16));
        doubled.min(longest) * (750 + chance.min(1000) / 2) / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_a_bound_and_spread() {
        let delay = |cure: RetryClass, failures, chance| cure.delay(failures, chance).as_millis();
        assert_eq!([1, 2, 3].map(|failures| delay(RetryClass::Time, failures, 500)), [2000, 4000, 8000]);
        for (cure, longest) in
            [(RetryClass::Time, 30_000), (RetryClass::Repair, 300_000), (RetryClass::Configuration, 600_000)]
        {
            assert_eq!(delay(cure, u32::MAX, 500), longest);
            assert_eq!((delay(cure, 9, 0), delay(cure, 9, 5000)), (longest * 3 / 4, longest * 5 / 4));
        }
    }
}
