//! Swaps at chosen moments: between each lookup of the directory and the use of its result. A signal stops
//! the run there, so that the moment is hit in every test.

use std::{fs, thread};

use testbed::strace::stopped::StoppedRun;
use testbed::strace::{self, Call};

use crate::race::arena::{Arena, CASES, Case, KEYS};

/// Lookups of the directory, each with the call of the same name before it: the swap must happen between the
/// two, as after the second the directory may already be open.
fn moments(calls: &[Call], directory: &str) -> Vec<Call> {
    let relative = directory.trim_start_matches('/');
    let mut lookups: Vec<&Call> = calls.iter().filter(|call| call.name == "openat2").collect();
    lookups.dedup_by_key(|call| call.number);
    let concerns = |index: usize| lookups.get(index).is_some_and(|call| call.text.contains(relative));
    let picked = (0..lookups.len()).filter(|index| concerns(*index) || concerns(index + 1));
    picked.map(|index| lookups[index].clone()).collect()
}

fn swap_at_every_lookup(case: Case) {
    testbed::preconditions::require_strace();
    let arena = Arena::new(case);
    let line = arena.applying(1);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let calls = strace::calls(&line);
    assert_eq!(arena.applies(0).code, Some(0));
    let moments = moments(&calls, case.directory);
    let (mut through, mut refused) = (0, 0);
    for moment in &moments {
        let what = format!("{case:?} at {} {}", moment.name, moment.number);
        let stopped = StoppedRun::at((&moment.name, moment.number), &line);
        arena.swap();
        let outcome = stopped.resume();
        arena.assert_sound(&outcome, &what);
        arena.swap();
        if outcome.code == Some(0) {
            through += 1;
            arena.assert_recovers_to(1, &what);
        } else {
            refused += 1;
            arena.assert_recovers_to(0, &what);
        }
        assert_eq!(arena.applies(1).code, Some(0), "{what}");
        arena.assert_recovers_to(1, &what);
        assert_eq!(arena.applies(0).code, Some(0), "{what}");
    }
    eprintln!("{case:?}: {} moments, {through} succeeded, {refused} were refused", moments.len());
    assert!(refused > 10, "{case:?}: too few lookups met the link");
}

#[test]
fn swap_between_lookup_and_use_writes_nothing_outside() {
    thread::scope(|scope| {
        for half in CASES.chunks(2) {
            scope.spawn(|| half.iter().for_each(|case| swap_at_every_lookup(*case)));
        }
    });
}

/// The config lists the directory of the keys, so the link may be replaced by a directory; it is never
/// followed.
#[test]
fn swap_of_the_key_directory_writes_nothing_outside() {
    testbed::preconditions::require_strace();
    let mut arena = Arena::new(KEYS);
    let line = arena.applying(1);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let moments = moments(&strace::calls(&line), KEYS.directory);
    assert_eq!(arena.applies(0).code, Some(0));
    let (mut replaced, mut refused) = (0, 0);
    for moment in &moments {
        let line = arena.applying(1);
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        let what = format!("{KEYS:?} at {} {}", moment.name, moment.number);
        let etc = names(&arena, "etc");
        let stopped = StoppedRun::at((&moment.name, moment.number), &line);
        arena.swap();
        let outcome = stopped.resume();
        arena.assert_sound(&outcome, &what);
        let was_replaced = !arena.tree.at(KEYS.directory).is_symlink();
        if was_replaced {
            assert_eq!(outcome.code, Some(0), "{what}: {outcome:?}");
            replaced += 1;
        } else {
            arena.swap();
            refused += 1;
        }
        assert_eq!(arena.runs("recover").code, Some(0), "{what}");
        assert_eq!(names(&arena, "etc"), etc, "{what}");
        assert_eq!(arena.applies(1).code, Some(0), "{what}");
        assert_eq!(arena.runs("verify").code, Some(0), "{what}");
        assert_eq!(names(&arena, "etc"), etc, "{what}");
        if was_replaced {
            // The link was replaced: start again with a new tree.
            arena = Arena::new(KEYS);
        }
        assert_eq!(arena.applies(0).code, Some(0), "{what}");
    }
    eprintln!("{} moments, the link was replaced at {replaced} and not followed at {refused}", moments.len());
    assert!(refused > 10 && replaced > 0, "{replaced} replaced, {refused} refused");
}

/// Names in a directory of the tree.
fn names(arena: &Arena, directory: &str) -> Vec<std::ffi::OsString> {
    let entries = fs::read_dir(arena.tree.at(directory)).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

/// A directory that appears at the last moment in place of a file must not be removed.
#[test]
fn directory_swapped_in_for_a_file_is_kept() {
    const FILE: &str = "/etc/foo/file";
    const DIRECTORY: &str = "/etc/foo/theirs";
    testbed::preconditions::require_strace();
    let arena = Arena::new(CASES[0]);
    let line = arena.applying(1);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let calls = strace::calls(&line);
    assert_eq!(arena.applies(0).code, Some(0));
    let looks = |call: &&Call| {
        let says = |what: &str| call.text.contains(what);
        call.name == "newfstatat" && says("\"file\"") || call.name == "openat2" && says("\"etc/foo\"")
    };
    let mut met = 0;
    for moment in calls.iter().filter(looks) {
        let what = format!("{} {}", moment.name, moment.number);
        arena.tree.file(&format!("{DIRECTORY}/precious"), 0o600, (0, 0), b"theirs");
        let stopped = StoppedRun::at((&moment.name, moment.number), &line);
        arena.exchange(FILE, DIRECTORY).unwrap();
        let outcome = stopped.resume();
        arena.assert_sound(&outcome, &what);
        let place = [FILE, DIRECTORY].into_iter().find(|path| arena.tree.at(path).is_dir());
        let kept = place.map(|path| fs::read_to_string(arena.tree.at(path).join("precious")).unwrap());
        assert_eq!(kept.as_deref(), Some("theirs"), "{what}: {outcome:?}");
        if place == Some(FILE) {
            met += 1;
            arena.exchange(FILE, DIRECTORY).unwrap();
        }
        fs::remove_dir_all(arena.tree.at(DIRECTORY)).unwrap();
        assert_eq!(arena.runs("recover").code, Some(0), "{what}");
        assert_eq!(arena.applies(0).code, Some(0), "{what}");
        arena.assert_recovers_to(0, &what);
    }
    assert!(met > 10, "too few calls met the directory");
}
