//! One agent at a time on one tree, and no trace of earlier ones.

mod accounts;
mod growth;
mod host;

use std::process::{Command, Stdio};

use testbed::model::run::{Outcome, program};
use testbed::model::snapshot;
use testbed::strace::stopped::StoppedRun;

use crate::locks::host::Host;

const BUSY: Option<i32> = Some(75);

/// Panics unless an attempt was refused with the ID of the process that holds the lock.
fn assert_busy(outcome: &Outcome, pid: u32) {
    let named = outcome.stderr.contains(&format!("(process {pid})"));
    assert!(outcome.code == BUSY && named, "{pid}: {outcome:?}");
}

#[test]
fn second_agent_is_refused_with_the_process_id_of_the_first() {
    // Stopped after the lock was taken with nothing staged, among the renames, and after the commit before
    // the cleanup.
    for place in [("mkdirat", 1), ("renameat2", 4), ("unlinkat", 1)] {
        testbed::preconditions::require_strace();
        let host = Host::small();
        let stopped = StoppedRun::at(place, &host.line("apply", Some(&host.right)));
        let before = snapshot::take(host.tree.root());
        for (verb, desired) in
            [("apply", Some(&*host.left)), ("apply", Some(&*host.right)), ("recover", None)]
        {
            assert_busy(&host.runs(verb, desired), stopped.pid);
        }
        let moving = place.0 == "renameat2";
        for (verb, desired) in [("plan", Some(&*host.left)), ("verify", None)] {
            let outcome = host.runs(verb, desired);
            if moving {
                assert_busy(&outcome, stopped.pid);
            } else {
                // Readers see a tree that is wholly old or wholly new.
                assert_eq!(outcome.code, Some(0), "{place:?}: {verb}: {outcome:?}");
            }
        }
        let after = snapshot::take(host.tree.root());
        assert_eq!(snapshot::changes(&before, &after), [""; 0], "{place:?}");
        let outcome = stopped.resume();
        assert_eq!(outcome.code, Some(0), "{place:?}: the first agent completes: {outcome:?}");
        assert_eq!((host.text("/etc/both").as_str(), host.runs("verify", None).code), ("right", Some(0)));
    }
}

#[test]
fn lock_ends_with_its_holder() {
    testbed::preconditions::require_strace();
    let host = Host::small();
    for settling in ["recover", "apply"] {
        let stopped = StoppedRun::at(("renameat2", 4), &host.line("apply", Some(&host.right)));
        assert_eq!(host.runs("verify", None).code, BUSY);
        assert!(host.runs("status", None).stdout.contains("is under way"));
        stopped.kill();
        for (verb, desired) in [("plan", Some(&*host.right)), ("verify", None)] {
            let outcome = host.runs(verb, desired);
            assert_eq!(outcome.code, Some(1), "{verb}: {outcome:?}");
            assert!(outcome.stderr.contains("`flameholder recover`"), "{verb}: {outcome:?}");
        }
        assert!(
            host.runs("status", None).stdout.contains("was interrupted; `flameholder recover` undoes it")
        );
        let desired = (settling == "apply").then_some(&*host.left);
        let outcome = host.runs(settling, desired);
        assert_eq!(outcome.code, Some(0), "{settling}: {outcome:?}");
        assert_eq!((host.text("/etc/both").as_str(), host.runs("verify", None).code), ("left", Some(0)));
    }
}

#[test]
fn lock_file_without_a_holder_is_free() {
    testbed::preconditions::require_strace();
    let host = Host::small();
    StoppedRun::at(("mkdirat", 1), &host.line("apply", Some(&host.right))).kill();
    assert_eq!(host.runs("verify", None).code, Some(0), "no change had begun");
    assert_eq!(host.runs("recover", None).code, Some(0));
    host.applies(&host.right);
}

/// Many agents at once: each does all of its work or none, and reports which.
#[test]
fn concurrent_agents_apply_in_turn_or_are_refused() {
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
    assert!(done >= 10, "one agent of each round succeeds");
}
