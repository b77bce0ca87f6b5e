//! Planted faults: each invariant notices an agent that lacks one of its precautions. The faults are acts of the test
//! on the host, right after the agent's own; the agent is the same.

use super::invariants::BrokenRule;
use super::step::{ConfigKind, DamageKind, OperatorAct, RECORD, Step};
use super::{prepared_host, report, run_sequence, steps_of};

/// Precaution that the agent seems to lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plant {
    /// The deployment before an unconfirmed generation is not pinned.
    NoPin,
    /// Finalization writes no mark.
    NoMark,
    /// Documents of newer releases are read as if they were of this one.
    AnySchema,
}

/// Sequences that are looked at, and of which the suitable ones are run.
const SEQUENCES: u64 = 2000;
/// Seed of these runs, whatever the commit.
const SEED: u64 = 1;
/// Suitable sequences that are run at most.
const RUNS: usize = 10;

/// Panics unless a sequence with the fault violates `rule`, and the same sequence without it violates none. Only
/// sequences in which two successive steps are `suitable` are run: in others, the fault makes no difference.
fn assert_noticed(plant: Plant, rule: BrokenRule, suitable: impl Fn(Step, Step) -> bool) {
    let prepared = prepared_host();
    let is_suitable = |steps: &Vec<Step>| steps.windows(2).any(|pair| suitable(pair[0], pair[1]));
    let sequences = (0..SEQUENCES).map(|sequence| (sequence, steps_of(SEED, sequence)));
    for (sequence, steps) in sequences.filter(|(_, steps)| is_suitable(steps)).take(RUNS) {
        let Err(violation) = run_sequence(&prepared, &steps, Some(plant)) else { continue };
        println!("{plant:?}: {}", report(SEED, sequence, &steps, &violation));
        assert_eq!(violation.broken.rule, rule, "{}", violation.broken);
        if let Err(violation) = run_sequence(&prepared, &steps, None) {
            panic!("without the fault: {}", report(SEED, sequence, &steps, &violation));
        }
        return;
    }
    panic!("{plant:?} is not noticed in {RUNS} sequences");
}

fn is_update(step: Step) -> bool {
    use ConfigKind::{Healthy, Unhealthy, WithImage};
    matches!(step, Step::Update { kind: Healthy | Unhealthy | WithImage, obstacle: None })
}

#[test]
fn missing_pin_is_noticed() {
    assert_noticed(Plant::NoPin, BrokenRule::WayBackLost, |first, second| {
        is_update(first) && second == Step::RebootAnd(OperatorAct::Deploy { is_staged: false })
    });
}

#[test]
fn missing_mark_is_noticed() {
    assert_noticed(Plant::NoMark, BrokenRule::WorkloadUnchecked, |first, second| {
        is_update(first) && matches!(second, Step::Reboot { .. })
    });
}

#[test]
fn documents_of_any_schema_are_noticed() {
    assert_noticed(Plant::AnySchema, BrokenRule::NewerBelieved, |first, _| {
        first == Step::Damage(RECORD, DamageKind::Newer)
    });
}
