//! Inhibitor locks that block a reboot: the request waits for their release, reports their owners, and
//! overrules them only if its policy says so.

use flameholder::host::systemd::reboot_port::{
    InhibitorLock, InhibitorPolicy, RebootError, RebootOutcome, RebootRequest,
};
use testbed::dbus::fake_logind::{Lock, Script, Version};

use crate::reboot::{DEADLINE, SHORT, request, requested, run_reboot};

const UPGRADE: Lock = ("shutdown:sleep", "dpkg", "packages are unpacked", "block", 0, 41);
const BACKUP: Lock = ("shutdown", "backup", "a snapshot is taken", "block", 1000, 42);
const WEAK: Lock = ("shutdown", "desktop", "unsaved work", "block-weak", 1000, 43);
const DELAY: Lock = ("shutdown", "kubelet", "pods end", "delay", 0, 44);
const ELSEWHERE: Lock = ("sleep:idle", "player", "a film", "block", 1000, 45);

/// Calls that set and reset the wall message.
const ANNOUNCED: &str = "SetWallMessage flameholder: generation 7, config worker-a true";
const RESET: &str = "SetWallMessage before false";

fn inhibitor(lock: Lock) -> InhibitorLock {
    let (_, who, why, mode, uid, pid) = lock;
    InhibitorLock { who: who.into(), why: why.into(), mode: mode.into(), uid, pid }
}

#[test]
fn reboot_is_requested_at_once_without_a_blocking_lock() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    for (version, call) in [
        (Version::V257, &["RebootWithFlags 1"][..]),
        (Version::V252, &["RebootWithFlags 1"]),
        (Version::V245, &["RebootWithFlags 1", "Reboot false"]),
    ] {
        let locks = vec![DELAY, ELSEWHERE];
        let run = run_reboot(Script { version, locks, ..Script::default() }, &request(DEADLINE));
        assert_eq!(run.outcome, Ok(requested()));
        assert!(run.reports.is_empty(), "{run:?}");
        assert_eq!(run.calls[0], ANNOUNCED);
        assert_eq!(run.calls[1..], *call, "{version:?}");
    }
}

#[test]
fn reboot_waits_for_the_release_of_locks() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let script = Script {
        locks: vec![UPGRADE, DELAY],
        later_locks: vec![vec![UPGRADE, BACKUP], vec![BACKUP], vec![]],
        ..Script::default()
    };
    let run = run_reboot(script, &request(DEADLINE));
    assert_eq!(run.outcome, Ok(requested()));
    let reports =
        [vec![inhibitor(UPGRADE)], vec![inhibitor(UPGRADE), inhibitor(BACKUP)], vec![inhibitor(BACKUP)]];
    assert_eq!(run.reports, reports);
    assert_eq!(run.calls, [ANNOUNCED, "RebootWithFlags 1"]);
}

#[test]
fn lock_that_stays_inhibits_the_reboot() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let locks = vec![DELAY, UPGRADE];
    let run = run_reboot(Script { locks, ..Script::default() }, &request(SHORT));
    let error = run.outcome.unwrap_err();
    assert_eq!(error, RebootError::Inhibited { by: vec![inhibitor(UPGRADE)], waited: SHORT });
    assert!(!error.is_uncertain());
    let text = error.to_string();
    for part in ["after 0.3 seconds", "dpkg (packages are unpacked; mode block, process 41 of user 0)"] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(run.reports, [vec![inhibitor(UPGRADE)]]);
    assert!(run.calls.is_empty(), "{:?}", run.calls);
}

#[test]
fn lock_that_stays_is_overruled_after_the_deadline_if_insisted() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let insisting = RebootRequest { inhibitors: InhibitorPolicy::OverruleAfterDeadline, ..request(SHORT) };
    for (version, calls) in [
        (Version::V257, &["RebootWithFlags 16"][..]),
        (Version::V252, &["RebootWithFlags 16", "RebootWithFlags 0"]),
        (Version::V245, &["RebootWithFlags 16", "Reboot false"]),
    ] {
        let run = run_reboot(Script { version, locks: vec![UPGRADE], ..Script::default() }, &insisting);
        assert_eq!(run.outcome, Ok(RebootOutcome::Requested { over: vec![inhibitor(UPGRADE)] }));
        assert_eq!(run.calls[1..], *calls, "{version:?}");
    }
}

#[test]
fn lock_that_is_taken_at_the_last_moment_inhibits_the_reboot() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    for version in [Version::V257, Version::V252] {
        let script = Script { version, locks_on_reboot: vec![vec![UPGRADE]], ..Script::default() };
        let run = run_reboot(script, &request(SHORT));
        let inhibited = RebootError::Inhibited { by: vec![inhibitor(UPGRADE)], waited: SHORT };
        assert_eq!(run.outcome, Err(inhibited), "{version:?}");
        assert_eq!(run.reports, [vec![inhibitor(UPGRADE)]]);
        assert_eq!(run.calls, [ANNOUNCED, "RebootWithFlags 1", RESET]);
    }
}

#[test]
fn reboot_is_repeated_after_a_brief_lock() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    // The lock is released before the locks are listed, and older versions do not name a lock as the reason.
    let script = Script {
        version: Version::V252,
        locks_on_reboot: vec![vec![UPGRADE], vec![]],
        are_released_on_refusal: true,
        ..Script::default()
    };
    let run = run_reboot(script, &request(DEADLINE));
    assert_eq!(run.outcome, Ok(requested()));
    assert!(run.reports.is_empty(), "{run:?}");
    let calls = [ANNOUNCED, "RebootWithFlags 1", RESET, ANNOUNCED, "RebootWithFlags 1"];
    assert_eq!(run.calls, calls);
}

#[test]
fn weak_lock_does_not_inhibit_root() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let run = run_reboot(Script { locks: vec![WEAK], ..Script::default() }, &request(DEADLINE));
    assert_eq!(run.outcome, Ok(requested()));
    let calls = [ANNOUNCED, "RebootWithFlags 1", RESET, ANNOUNCED, "RebootWithFlags 0"];
    assert_eq!(run.calls, calls);
}
