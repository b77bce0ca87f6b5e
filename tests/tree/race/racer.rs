//! The swap at any moment: somebody else's loop against ours.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::race::arena::{Arena, CASES};

/// Applies against each racer.
const RUNS: usize = 120;

/// Numbers without a pattern that a run could fall into step with (xorshift).
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Swaps back and forth until told to stop; the directory is in its place then. The link is there for short
/// times only: an apply that met it at once would never get as far as to be surprised by it.
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
fn a_directory_becomes_a_link_at_any_moment() {
    for case in CASES {
        let arena = Arena::new(case);
        let stop = AtomicBool::new(false);
        let (mut through, mut refused) = (0, 0);
        let swaps = thread::scope(|scope| {
            let racer = scope.spawn(|| race(&arena, &stop));
            for run in 0..RUNS {
                let outcome = arena.applies((run + 1) % 2);
                // The racer ends however this ends.
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
        eprintln!("{case:?}: {swaps} swaps, {through} came through, {refused} were refused");
        assert!(through > 0 && refused > 0, "{case:?}: {through} came through, {refused} were refused");
        let recovered = arena.runs("recover");
        assert_eq!(recovered.code, Some(0), "{recovered:?}");
        for side in [1, 0] {
            let outcome = arena.applies(side);
            assert_eq!(outcome.code, Some(0), "{outcome:?}");
            arena.assert_holds(side);
        }
    }
}
