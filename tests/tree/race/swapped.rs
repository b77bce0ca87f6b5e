//! The swap at a moment of our choice: between any lookup of the directory and what is done with it.
//!
//! The run is stopped there by a signal, so that the moment is met every time.

use std::fs;
use std::thread;

use crate::race::arena::{Arena, CASES, Case, KEYS};
use testbed::strace::{self, Call, held::Held};

/// Calls that look for the directory, each with the one of its kind before it: between the two the directory
/// may become a link, after it the link may be too late.
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
        let held = Held::at((&moment.name, moment.number), &line);
        arena.swap();
        let outcome = held.go_on();
        arena.assert_sound(&outcome, &what);
        arena.swap();
        if outcome.code == Some(0) {
            through += 1;
            arena.assert_settles_on(1, &what);
        } else {
            refused += 1;
            arena.assert_settles_on(0, &what);
        }
        assert_eq!(arena.applies(1).code, Some(0), "{what}");
        arena.assert_settles_on(1, &what);
        assert_eq!(arena.applies(0).code, Some(0), "{what}");
    }
    eprintln!("{case:?}: {} moments, {through} came through, {refused} were refused", moments.len());
    assert!(refused > 10, "{case:?}: the link is hardly met");
}

#[test]
fn a_directory_becomes_a_link_between_lookup_and_use() {
    thread::scope(|scope| {
        for half in CASES.chunks(2) {
            scope.spawn(|| half.iter().for_each(|case| swap_at_every_lookup(*case)));
        }
    });
}

/// Here the link may also be replaced by a directory, which is the config's own; it is never followed.
#[test]
fn the_keys_directory_becomes_a_link_between_lookup_and_use() {
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
        let held = Held::at((&moment.name, moment.number), &line);
        arena.swap();
        let outcome = held.go_on();
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
            // There is no link left to swap.
            arena = Arena::new(KEYS);
        }
        assert_eq!(arena.applies(0).code, Some(0), "{what}");
    }
    eprintln!("{} moments, the link was replaced at {replaced} and not followed at {refused}", moments.len());
    assert!(refused > 10 && replaced > 0, "{replaced} replaced, {refused} refused");
}

/// The names in a directory of the tree.
fn names(arena: &Arena, directory: &str) -> Vec<std::ffi::OsString> {
    let entries = fs::read_dir(arena.tree.at(directory)).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

/// What nobody asked to remove is never removed, also where it comes in the last moment.
#[test]
fn a_directory_that_takes_a_files_place_is_kept_whole() {
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
        let held = Held::at((&moment.name, moment.number), &line);
        arena.exchange(FILE, DIRECTORY).unwrap();
        let outcome = held.go_on();
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
        arena.assert_settles_on(0, &what);
    }
    assert!(met > 10, "the directory is hardly met");
}
