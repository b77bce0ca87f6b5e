//! Swaps at random moments: another process swaps in a loop while applies run.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::race::arena::{Arena, CASES};

/// Applies against each racing process.
const RUNS: usize = 120;

/// Pseudorandom numbers (xorshift), so that no run falls into step with the swaps.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Swap back and forth until told to stop, and end with the directory in place. The link is there for short
/// times only: an apply that meets it at its first lookup would never get further.
fn race(arena: &Arena, stop: &AtomicBool) -> usize {
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    let mut swaps = 0;
    while !stop.load(Ordering::Relaxed) {
        arena.swap();
        (0..chance.below(1 << 12)).for_each(|_| spin_loop());
        arena.swap();
        (0..chance.below(1 << 17)).for_each(|_| spin_loop());
        swaps += 2;
    }
    swaps
}

#[test]
fn swap_at_random_moments_writes_nothing_outside() {
    for case in CASES {
        let arena = Arena::new(case);
        let stop = AtomicBool::new(false);
        let (mut through, mut refused) = (0, 0);
        let swaps = thread::scope(|scope| {
            let racer = scope.spawn(|| race(&arena, &stop));
            for run in 0..RUNS {
                let outcome = arena.applies((run + 1) % 2);
                // The racing thread must stop even if an assertion fails.
                let sound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    arena.assert_sound(&outcome, &format!("{case:?}, run {run}"));
                }));
                if let Err(unsound) = sound {
                    stop.store(true, Ordering::Relaxed);
                    std::panic::resume_unwind(unsound);
                }
                *(if outcome.code == Some(0) { &mut through } else { &mut refused }) += 1;
            }
            stop.store(true, Ordering::Relaxed);
            racer.join().unwrap()
        });
        eprintln!("{case:?}: {swaps} swaps, {through} succeeded, {refused} were refused");
        assert!(through > 0 && refused > 0, "{case:?}: {through} succeeded, {refused} were refused");
        let recovered = arena.runs("recover");
        assert_eq!(recovered.code, Some(0), "{recovered:?}");
        for side in [1, 0] {
            let outcome = arena.applies(side);
            assert_eq!(outcome.code, Some(0), "{outcome:?}");
            arena.assert_applied(side);
        }
    }
}
