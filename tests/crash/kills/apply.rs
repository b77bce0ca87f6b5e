//! Kills of `apply`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Mutex;

use crate::kills::bench::{Bench, Pair};
use crate::kills::{in_parallel, require_all};
use testbed::strace::{self, Call};

/// Calls that change nothing, at which a run is killed all the same, more and more sparsely.
const SPARSELY: [&str; 2] = ["openat", "openat2"];

/// The calls at which a run that makes `calls` is killed, in order.
fn places(calls: &[Call]) -> Vec<Call> {
    let picked =
        |call: &&Call| call.is_change() || SPARSELY.contains(&call.name.as_str()) && is_sparse(call.number);
    calls.iter().filter(picked).cloned().collect()
}

/// 1, 2, 4, 7, 11, 17 and so on.
fn is_sparse(number: usize) -> bool {
    let mut next = 1;
    while next < number {
        next += 1 + next / 2;
    }
    next == number
}

/// There is one call before which every kill leaves the old tree, and from which on the new one.
fn assert_one_switch(places: &[Call], held: &BTreeMap<usize, bool>) {
    assert_eq!(held.len(), places.len());
    let first = places.iter().enumerate().position(|(index, _)| held[&index]);
    let first = first.expect("a change holds before its process ends");
    assert!(first > 0, "a change does not hold before anything was done");
    let late = (first..places.len()).find(|index| !held[index]);
    assert_eq!(late.map(|index| places[index].place()), None, "held from {} on", places[first].place());
    eprintln!("{} kills, the change holds from {} on", places.len(), places[first].place());
}

/// The last call of each kind was indeed the last: a run that waits for one more comes through.
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
            let place = strace::place(name, number, "KILL");
            let killed = bench.attempt(&place, &|arguments| strace::alone(&place, arguments));
            assert_eq!(killed, None, "{place} is reached");
        }
    }
}

#[test]
fn apply_is_killed_at_every_change() {
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
                let place = ways[side][index].place();
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
fn a_first_apply_is_killed_at_every_change() {
    require_all();
    let pair = Pair::new();
    let calls = places(&Bench::fresh(&pair).go_on_traced());
    let queue = Mutex::new((0..calls.len()).collect::<VecDeque<_>>());
    let held = Mutex::new(BTreeMap::new());
    in_parallel(|| {
        loop {
            let next = queue.lock().unwrap().pop_front();
            let Some(index) = next else { break };
            let place = calls[index].place();
            let is_new = Bench::fresh(&pair).survive(&place);
            held.lock().unwrap().insert(index, is_new);
        }
    });
    assert_one_switch(&calls, &held.lock().unwrap());
}

/// Here the flushes have their threads. Which of them makes how many is chance, so this is a sample: each kill
/// falls among flushes of which some are done and some are not.
#[test]
fn apply_is_killed_among_parallel_flushes() {
    require_all();
    let pair = Pair::new();
    let mut bench = Bench::on_the_left(&pair);
    let mut kills = 0;
    for call in ["fsync", "clone3", "exit"] {
        for number in (1..).step_by(2) {
            let place = strace::place(call, number, "KILL");
            if bench.attempt(&place, &|arguments| strace::together(&place, arguments)).is_none() {
                break;
            }
            kills += 1;
        }
    }
    eprintln!("{kills} kills");
    assert!(kills > 10, "{kills} kills");
}

/// The way to the lock is made before there is a lock, and no journal tells of it.
#[test]
fn the_way_to_the_lock_is_whole_wherever_its_maker_is_killed() {
    require_all();
    let pair = Pair::new();
    for (call, numbers) in [("mkdirat", 1..=2), ("fchown", 1..=2), ("fchmod", 1..=2), ("flock", 1..=1)] {
        for number in numbers {
            let mut bench = Bench::fresh(&pair);
            let place = strace::place(call, number, "KILL");
            let directory = bench.root().join("var/lib");
            fs::remove_dir(&directory).unwrap();
            assert_eq!(strace::alone(&place, &bench.applying()).code, None, "{place} is not reached");
            bench.go_on();
            let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
            assert_eq!(mode(&directory), 0o755, "{place}");
            assert_eq!(mode(&directory.join("flameholder")), 0o700, "{place}");
        }
    }
}
