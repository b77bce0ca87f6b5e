//! `recover` killed with SIGKILL, and an `apply` that recovers first, after a kill in every phase of a
//! change.

use std::collections::VecDeque;
use std::sync::Mutex;

use testbed::strace::{self, Call};

use crate::kills::bench::{Bench, Pair};
use crate::kills::{in_parallel, require_all};

/// Kill in the middle of a change, and true if the change is committed by then.
struct Phase {
    name: &'static str,
    kill: Call,
    holds: bool,
}

/// One kill in every phase of the apply that makes `calls`.
fn phases(calls: &[Call]) -> Vec<Phase> {
    let changes: Vec<&Call> = calls.iter().filter(|call| call.is_change()).collect();
    let find = |name: &str, said: &str, from: usize| {
        let at = changes.iter().skip(from).position(|call| call.name == name && call.text.contains(said));
        from + at.unwrap_or_else(|| panic!("the apply makes no call {name} of {said}"))
    };
    let staged = find("renameat2", "journal.new", 0);
    let prepared = find("renameat2", "", staged + 1);
    let attributes = find("fchmod", "", prepared);
    let moved = find("write", "state", prepared);
    let moving: Vec<usize> = (prepared..moved).filter(|at| changes[*at].name == "renameat2").collect();
    let cleared = find("unlinkat", "\"journal\"", moved);
    let phase = |name, at: usize| Phase { name, kill: changes[at].clone(), holds: at > moved };
    vec![
        phase("while staging", staged / 2),
        phase("staged", staged),
        phase("prepared", prepared),
        phase("between owner and mode of a directory", attributes),
        phase("moving", moving[moving.len() / 2]),
        phase("moved", moved),
        phase("committed", moved + 1),
        phase("clearing", (moved + 1 + cleared) / 2),
        phase("all removed but the journal", cleared),
    ]
}

/// Kill an apply in that phase.
fn kill(bench: &Bench<'_>, phase: &Phase) {
    let outcome = strace::run_single_threaded(&phase.kill.kill_injection(), &bench.applying());
    assert_eq!(outcome.code, None, "{}: {outcome:?}", phase.name);
}

/// Kill an apply, then the `recover` after it at `place`, and recover again.
fn die_twice(bench: &mut Bench<'_>, phase: &Phase, place: &str) {
    let both = format!("{} ({}), then in recover {place}", phase.name, phase.kill.kill_injection());
    kill(bench, phase);
    let outcome = strace::run_single_threaded(place, &bench.recovering());
    assert_eq!(outcome.code, None, "{both} : the run was not killed: {outcome:?}");
    bench.look(&both);
    assert_eq!(bench.recover(&both), phase.holds, "{both}: is the change committed");
    if phase.holds {
        bench.arrive();
        bench.go_on();
    }
}

/// Tree on the left, and the phases of the change to the right.
fn before_going_right(pair: &Pair) -> (Bench<'_>, Vec<Phase>) {
    let mut bench = Bench::on_the_left(pair);
    let phases = phases(&bench.go_on_traced());
    bench.go_on();
    (bench, phases)
}

#[test]
fn kill_of_recover_in_each_phase_keeps_the_outcome() {
    require_all();
    let pair = Pair::new();
    let (mut bench, phases) = before_going_right(&pair);
    let mut kills = VecDeque::new();
    for phase in &phases {
        kill(&bench, phase);
        bench.look(phase.name);
        let mut calls = strace::calls(&bench.recovering());
        calls.retain(Call::is_change);
        assert_eq!(bench.recover(phase.name), phase.holds, "{}: is the change committed", phase.name);
        bench.go_on();
        bench.go_on();
        eprintln!("{}: {} kills of recover", phase.name, calls.len());
        kills.extend(calls.iter().map(|call| (phase, call.kill_injection())));
    }
    let kills = Mutex::new(kills);
    in_parallel(|| {
        let mut bench = Bench::on_the_left(&pair);
        loop {
            let next = kills.lock().unwrap().pop_front();
            let Some((phase, place)) = next else { break };
            die_twice(&mut bench, phase, &place);
        }
        // After all these kills the tree can still be changed.
        bench.go_on();
    });
}

/// An apply recovers an open change first, and can be killed as well.
#[test]
fn kill_of_an_apply_that_recovers_leaves_old_or_new() {
    require_all();
    let pair = Pair::new();
    let (mut bench, phases) = before_going_right(&pair);
    for phase in &phases {
        kill(&bench, phase);
        bench.go_on();
        bench.go_on();
        kill(&bench, phase);
        let calls = bench.go_on_traced();
        bench.go_on();
        let changes: Vec<&Call> = calls.iter().filter(|call| call.is_change()).collect();
        for call in changes.iter().step_by(changes.len() / 8 + 1) {
            kill(&bench, phase);
            let place = call.kill_injection();
            let is_new = bench.survive(&place);
            assert!(is_new || !phase.holds, "{}, then {place}", phase.name);
            bench.go_on();
        }
    }
}
