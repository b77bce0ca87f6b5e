//! Soak: random sequences of updates, reboots, power cuts, acts of operators, damage and obstacles. After each step
//! the invariants hold, and at the end the host is brought back with what its messages name.
//!
//! The seed comes from the commit's hash. `FLAMEHOLDER_SEED` and `FLAMEHOLDER_SEQUENCE` repeat one sequence, and
//! `FLAMEHOLDER_EXHAUSTIVE` runs ten times as many. `FLAMEHOLDER_NEXT` names the folder with the executables of the
//! next release (feature `next-schema`); without it the agent is never exchanged.

mod acts;
mod damage;
mod earlier_faults;
mod invariants;
pub(crate) mod obstacle;
mod planted;
mod random;
mod run;
pub(crate) mod step;
mod ways_out;

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{panic, thread};

use invariants::Broken;
use planted::Plant;
use random::RandomNumbers;
use run::SoakRun;
use step::{Step, draw_steps};
use testbed::booted::host::{Host, confirmed_host};

/// Sequences of a run, and of an exhaustive one.
const SEQUENCES: [u64; 2] = [20, 200];
/// Sequences that run at a time.
const THREADS: usize = 2;

/// First violation of a sequence.
struct Violation {
    broken: Broken,
    /// Number of the step, from 1; steps after the last one bring the host back.
    step: usize,
}

/// Host from which every sequence starts.
fn prepared_host() -> Host {
    let host = confirmed_host("start");
    host.image(&run::other_os());
    host
}

/// Run a sequence to its end, or to its first violation.
fn run_sequence(prepared: &Host, steps: &[Step], plant: Option<Plant>) -> Result<(), Violation> {
    let mut run = SoakRun::new(prepared, plant);
    for (index, step) in steps.iter().enumerate() {
        run.take(*step).map_err(|broken| Violation { broken, step: index + 1 })?;
    }
    ways_out::bring_back(&mut run).map_err(|broken| Violation { broken, step: steps.len() + 1 })
}

fn steps_of(seed: u64, sequence: u64) -> Vec<Step> {
    draw_steps(&mut RandomNumbers::of_sequence(seed, sequence))
}

/// Run sequences, each with the next number, and return the reports of those that fail.
fn failures_of(seed: u64, next: &AtomicU64, end: u64) -> Vec<String> {
    let prepared = prepared_host();
    let numbers =
        std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)).filter(|number| *number < end));
    let reports = numbers.filter_map(|sequence| {
        let steps = steps_of(seed, sequence);
        let run = AssertUnwindSafe(|| run_sequence(&prepared, &steps, None));
        let outcome = panic::catch_unwind(run).unwrap_or_else(|cause| {
            eprintln!("FLAMEHOLDER_SEED={seed} FLAMEHOLDER_SEQUENCE={sequence}: {steps:#?}");
            panic::resume_unwind(cause)
        });
        let violation = outcome.err()?;
        Some(report(seed, sequence, &steps, &violation))
    });
    reports.collect()
}

fn report(seed: u64, sequence: u64, steps: &[Step], violation: &Violation) -> String {
    let listed: Vec<String> =
        steps.iter().enumerate().map(|(index, step)| format!("  {}. {step:?}", index + 1)).collect();
    format!(
        "FLAMEHOLDER_SEED={seed} FLAMEHOLDER_SEQUENCE={sequence}: step {} of {}: {}\n{}",
        violation.step,
        steps.len(),
        violation.broken,
        listed.join("\n")
    )
}

#[test]
fn random_sequences_break_no_invariant() {
    let seed = random::chosen_seed();
    let only = std::env::var("FLAMEHOLDER_SEQUENCE").ok().map(|number| number.parse::<u64>().unwrap());
    let count = SEQUENCES[usize::from(testbed::is_exhaustive())];
    let (start, end) = only.map_or((0, count), |only| (only, only + 1));
    println!("FLAMEHOLDER_SEED={seed}: sequences {start} to {}", end - 1);
    if testbed::executables::next_release().is_none() {
        println!("FLAMEHOLDER_NEXT is not set: the agent is never exchanged");
    }
    let next = AtomicU64::new(start);
    let failures: Vec<String> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(|| failures_of(seed, &next, end))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
