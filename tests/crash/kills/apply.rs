//! `apply` killed with SIGKILL.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Mutex;

use testbed::strace::{self, Call};

use crate::kills::bench::{Bench, Pair};
use crate::kills::{in_parallel, require_all};

/// Calls without an effect on the tree, at which a run is killed too, at increasing distances.
const SPARSELY: [&str; 2] = ["openat", "openat2"];

/// The calls of `calls` at which the run is killed, in order.
fn places(calls: &[Call]) -> Vec<Call> {
    let picked =
        |call: &&Call| call.is_change() || SPARSELY.contains(&call.name.as_str()) && is_sparse(call.number);
    calls.iter().filter(picked).cloned().collect()
}

/// True for 1, 2, 4, 7, 11, 17 and so on.
fn is_sparse(number: usize) -> bool {
    let mut next = 1;
    while next < number {
        next += 1 + next / 2;
    }
    next == number
}

/// Panics unless there is one call up to which each kill leaves the old tree, and from which on the new one.
fn assert_one_switch(places: &[Call], held: &BTreeMap<usize, bool>) {
    assert_eq!(held.len(), places.len());
    let first = places.iter().enumerate().position(|(index, _)| held[&index]);
    let first = first.expect("a kill before the end of the process leaves the new tree");
    assert!(first > 0, "the first kill leaves the old tree");
    let late = (first..places.len()).find(|index| !held[index]);
    assert_eq!(
        late.map(|index| places[index].kill_injection()),
        None,
        "committed from {} on",
        places[first].kill_injection()
    );
    eprintln!("{} kills, the change is committed from {} on", places.len(), places[first].kill_injection());
}

/// Panics unless the last call of each kind was the last: a run that is to be killed one call later
/// completes.
fn assert_last(bench: &mut Bench<'_>, ways: &[Vec<Call>; 2]) {
    let last = ways.each_ref().map(|way| {
        let changes = way.iter().filter(|call| call.is_change());
        changes
            .map(|call| (call.name.as_str(), way.iter().filter(|other| other.name == call.name).count()))
            .collect::<BTreeMap<&str, usize>>()
    });
    let names: BTreeSet<&&str> = last.iter().flat_map(BTreeMap::keys).collect();
    for name in names {
        for _ in &last {
            let number = last[bench.next()].get(*name).map_or(1, |number| number + 1);
            let place = strace::injection(name, number, "KILL");
            let killed = bench.attempt(&place, &|arguments| strace::run_single_threaded(&place, arguments));
            assert_eq!(killed, None, "{place}: the run was killed, expected no such call");
        }
    }
}

#[test]
fn kill_at_each_call_of_an_apply_leaves_old_or_new() {
    require_all();
    let pair = Pair::new();
    let mut bench = Bench::on_the_left(&pair);
    let [rightwards, leftwards] = [(); 2].map(|()| bench.go_on_traced());
    let ways = [leftwards, rightwards];
    assert_last(&mut bench, &ways);
    let ways = ways.map(|calls| places(&calls));
    let queues = ways.each_ref().map(|way| Mutex::new((0..way.len()).collect::<VecDeque<_>>()));
    let held = [(); 2].map(|()| Mutex::new(BTreeMap::new()));
    in_parallel(|| {
        let mut bench = Bench::on_the_left(&pair);
        loop {
            let side = bench.next();
            let next = queues[side].lock().unwrap().pop_front();
            if let Some(index) = next {
                let place = ways[side][index].kill_injection();
                let is_new = bench.survive(&place);
                held[side].lock().unwrap().insert(index, is_new);
            } else if queues[1 - side].lock().unwrap().is_empty() {
                break;
            } else {
                bench.go_on();
            }
        }
    });
    for (way, held) in ways.iter().zip(&held) {
        assert_one_switch(way, &held.lock().unwrap());
    }
}

#[test]
fn kill_at_each_call_of_a_first_apply_leaves_old_or_new() {
    require_all();
    let pair = Pair::new();
    let calls = places(&Bench::fresh(&pair).go_on_traced());
    let queue = Mutex::new((0..calls.len()).collect::<VecDeque<_>>());
    let held = Mutex::new(BTreeMap::new());
    in_parallel(|| {
        loop {
            let next = queue.lock().unwrap().pop_front();
            let Some(index) = next else { break };
            let place = calls[index].kill_injection();
            let is_new = Bench::fresh(&pair).survive(&place);
            held.lock().unwrap().insert(index, is_new);
        }
    });
    assert_one_switch(&calls, &held.lock().unwrap());
}

/// Kill while several threads flush. The share of each thread varies, so this is a sample: at each kill some
/// flushes are done and some are not.
#[test]
fn kill_among_parallel_flushes_leaves_old_or_new() {
    require_all();
    let pair = Pair::new();
    let mut bench = Bench::on_the_left(&pair);
    let mut kills = 0;
    for call in ["fsync", "clone3", "exit"] {
        for number in (1..).step_by(2) {
            let place = strace::injection(call, number, "KILL");
            if bench.attempt(&place, &|arguments| strace::run_threaded(&place, arguments)).is_none() {
                break;
            }
            kills += 1;
        }
    }
    eprintln!("{kills} kills");
    assert!(kills > 10, "{kills} kills");
}

/// The directories of the lock are made before the lock is taken, and no journal covers them.
#[test]
fn kill_while_the_lock_is_made_leaves_a_usable_tree() {
    require_all();
    let pair = Pair::new();
    for (call, numbers) in [("mkdirat", 1..=2), ("fchown", 1..=2), ("fchmod", 1..=2), ("flock", 1..=1)] {
        for number in numbers {
            let mut bench = Bench::fresh(&pair);
            let place = strace::injection(call, number, "KILL");
            let directory = bench.root().join("var/lib");
            fs::remove_dir(&directory).unwrap();
            assert_eq!(
                strace::run_single_threaded(&place, &bench.applying()).code,
                None,
                "{place} is not reached"
            );
            bench.go_on();
            let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
            assert_eq!(mode(&directory), 0o755, "{place}");
            assert_eq!(mode(&directory.join("flameholder")), 0o700, "{place}");
        }
    }
}
