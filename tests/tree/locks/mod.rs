//! One agent at a time on one tree, and no trace of the many that were there before.

mod growth;
mod host;

use std::process::{Command, Stdio};

use crate::locks::host::Host;
use testbed::model::run::{Outcome, program};
use testbed::model::snapshot;
use testbed::strace::held::Held;

const BUSY: Option<i32> = Some(75);

/// Expects an attempt to be turned away by the process `pid`, which goes on unharmed.
fn assert_busy(outcome: &Outcome, pid: u32) {
    let named = outcome.stderr.contains(&format!("(process {pid})"));
    assert!(outcome.code == BUSY && named, "{pid}: {outcome:?}");
}

#[test]
fn whoever_comes_second_is_told_who_is_at_work() {
    // Just locked, nothing staged; some things moved; committed, not cleared.
    for place in [("mkdirat", 1), ("renameat2", 4), ("unlinkat", 1)] {
        testbed::preconditions::require_strace();
        let host = Host::small();
        let held = Held::at(place, &host.line("apply", Some(&host.right)));
        let before = snapshot::take(host.tree.root());
        for (verb, desired) in
            [("apply", Some(&*host.left)), ("apply", Some(&*host.right)), ("recover", None)]
        {
            assert_busy(&host.runs(verb, desired), held.pid);
        }
        let moving = place.0 == "renameat2";
        for (verb, desired) in [("plan", Some(&*host.left)), ("verify", None)] {
            let outcome = host.runs(verb, desired);
            if moving {
                assert_busy(&outcome, held.pid);
            } else {
                // What they see is wholly old, or wholly new.
                assert_eq!(outcome.code, Some(0), "{place:?}: {verb}: {outcome:?}");
            }
        }
        let after = snapshot::take(host.tree.root());
        assert_eq!(snapshot::disturbed(&before, &after), [""; 0], "{place:?}");
        let outcome = held.go_on();
        assert_eq!(outcome.code, Some(0), "{place:?}: whoever came first comes through: {outcome:?}");
        assert_eq!((host.text("/etc/both").as_str(), host.runs("verify", None).code), ("right", Some(0)));
    }
}

#[test]
fn a_lock_dies_with_its_holder() {
    testbed::preconditions::require_strace();
    let host = Host::small();
    for settling in ["recover", "apply"] {
        let held = Held::at(("renameat2", 4), &host.line("apply", Some(&host.right)));
        assert_eq!(host.runs("verify", None).code, BUSY);
        assert!(host.runs("status", None).stdout.contains("is under way"));
        held.kill();
        for (verb, desired) in [("plan", Some(&*host.right)), ("verify", None)] {
            let outcome = host.runs(verb, desired);
            assert_eq!(outcome.code, Some(1), "{verb}: {outcome:?}");
            assert!(outcome.stderr.contains("`flameholder recover`"), "{verb}: {outcome:?}");
        }
        assert!(
            host.runs("status", None).stdout.contains("was interrupted; `flameholder recover` takes it back")
        );
        let desired = (settling == "apply").then_some(&*host.left);
        let outcome = host.runs(settling, desired);
        assert_eq!(outcome.code, Some(0), "{settling}: {outcome:?}");
        assert_eq!((host.text("/etc/both").as_str(), host.runs("verify", None).code), ("left", Some(0)));
    }
}

#[test]
fn a_lock_that_is_only_left_is_free() {
    testbed::preconditions::require_strace();
    let host = Host::small();
    Held::at(("mkdirat", 1), &host.line("apply", Some(&host.right))).kill();
    assert_eq!(host.runs("verify", None).code, Some(0), "nothing was begun");
    assert_eq!(host.runs("recover", None).code, Some(0));
    host.applies(&host.right);
}

/// Many at once: each does all of its work or none, and says which.
#[test]
fn a_crowd_takes_turns_or_goes_away() {
    let host = Host::small();
    let mut done = 0;
    for _ in 0..10 {
        let children: Vec<_> = [&host.left, &host.right]
            .repeat(4)
            .into_iter()
            .map(|desired| {
                let mut command = Command::new(program());
                command.args(host.line("apply", Some(desired))).stdout(Stdio::null()).stderr(Stdio::piped());
                command.spawn().unwrap()
            })
            .collect();
        for child in children {
            let output = child.wait_with_output().unwrap();
            let code = output.status.code();
            assert!([Some(0), BUSY].contains(&code), "{}", String::from_utf8_lossy(&output.stderr));
            done += usize::from(code == Some(0));
        }
        assert_eq!(host.runs("verify", None).code, Some(0));
    }
    assert!(done >= 10, "each crowd has a first");
}
