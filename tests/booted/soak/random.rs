//! Numbers that a seed determines, and the seed that the commit determines.

use std::env;
use std::process::Command;

/// Generator (SplitMix64): the same seed draws the same numbers on every machine.
#[derive(Debug, Clone)]
pub(super) struct RandomNumbers(u64);

impl RandomNumbers {
    /// Start the sequence with this number of a run.
    pub(super) fn of_sequence(seed: u64, sequence: u64) -> Self {
        let mut numbers = Self(seed ^ sequence.wrapping_mul(0xd1b5_4a32_d192_ed03));
        numbers.next();
        numbers
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Draw a number below `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    /// Draw true once in `times`.
    pub(super) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(super) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// Return the seed of `FLAMEHOLDER_SEED`, or else the first digits of the commit's hash. Outside a git work tree the
/// seed is 1.
pub(super) fn chosen_seed() -> u64 {
    if let Ok(seed) = env::var("FLAMEHOLDER_SEED") {
        return seed.parse().expect("FLAMEHOLDER_SEED is a number");
    }
    let head = Command::new("git").args(["rev-parse", "HEAD"]).current_dir(testbed::repository()).output();
    let hash = head.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    hash.get(..8).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(1)
}
