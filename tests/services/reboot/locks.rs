//! Those who block a reboot: waited for, named, overruled, never run over.

use flameholder::host::systemd::reboot_port::{
    InhibitorLock, InhibitorPolicy, RebootError, RebootOutcome, RebootRequest,
};

use crate::reboot::{PATIENT, SOON, asked, played, request};
use testbed::dbus::fake_logind::{Lock, Script, Version};

const UPGRADE: Lock = ("shutdown:sleep", "dpkg", "packages are unpacked", "block", 0, 41);
const BACKUP: Lock = ("shutdown", "backup", "a snapshot is taken", "block", 1000, 42);
const WEAK: Lock = ("shutdown", "desktop", "somebody works", "block-weak", 1000, 43);
const DELAY: Lock = ("shutdown", "kubelet", "pods end", "delay", 0, 44);
const ELSEWHERE: Lock = ("sleep:idle", "player", "a film", "block", 1000, 45);

const ANNOUNCED: &str = "SetWallMessage flameholder: generation 7, config worker-a true";
const TAKEN_BACK: &str = "SetWallMessage before false";

fn named(lock: Lock) -> InhibitorLock {
    let (_, who, why, mode, uid, pid) = lock;
    InhibitorLock { who: who.into(), why: why.into(), mode: mode.into(), uid, pid }
}

#[test]
fn nobody_blocks_it() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    for (version, call) in [
        (Version::V257, &["RebootWithFlags 1"][..]),
        (Version::V252, &["RebootWithFlags 1"]),
        (Version::V245, &["RebootWithFlags 1", "Reboot false"]),
    ] {
        let locks = vec![DELAY, ELSEWHERE];
        let played = played(Script { version, locks, ..Script::default() }, &request(PATIENT));
        assert_eq!(played.outcome, Ok(asked()));
        assert!(played.reports.is_empty(), "{played:?}");
        assert_eq!(played.calls[0], ANNOUNCED);
        assert_eq!(played.calls[1..], *call, "{version:?}");
    }
}

#[test]
fn a_lock_that_goes_away() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let script = Script {
        locks: vec![UPGRADE, DELAY],
        later_locks: vec![vec![UPGRADE, BACKUP], vec![BACKUP], vec![]],
        ..Script::default()
    };
    let played = played(script, &request(PATIENT));
    assert_eq!(played.outcome, Ok(asked()));
    let reports = [vec![named(UPGRADE)], vec![named(UPGRADE), named(BACKUP)], vec![named(BACKUP)]];
    assert_eq!(played.reports, reports);
    assert_eq!(played.calls, [ANNOUNCED, "RebootWithFlags 1"]);
}

#[test]
fn a_lock_that_stays() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let locks = vec![DELAY, UPGRADE];
    let played = played(Script { locks, ..Script::default() }, &request(SOON));
    let error = played.outcome.unwrap_err();
    assert_eq!(error, RebootError::Inhibited { by: vec![named(UPGRADE)], waited: SOON });
    assert!(!error.is_uncertain());
    let text = error.to_string();
    for part in ["after 0.3 seconds", "dpkg (packages are unpacked; mode block, process 41 of user 0)"] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(played.reports, [vec![named(UPGRADE)]]);
    assert!(played.calls.is_empty(), "{:?}", played.calls);
}

#[test]
fn a_lock_that_stays_and_is_overruled() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let insisting = RebootRequest { inhibitors: InhibitorPolicy::OverruleAfterDeadline, ..request(SOON) };
    for (version, calls) in [
        (Version::V257, &["RebootWithFlags 16"][..]),
        (Version::V252, &["RebootWithFlags 16", "RebootWithFlags 0"]),
        (Version::V245, &["RebootWithFlags 16", "Reboot false"]),
    ] {
        let played = played(Script { version, locks: vec![UPGRADE], ..Script::default() }, &insisting);
        assert_eq!(played.outcome, Ok(RebootOutcome::Requested { over: vec![named(UPGRADE)] }));
        assert_eq!(played.calls[1..], *calls, "{version:?}");
    }
}

#[test]
fn a_lock_that_is_taken_at_the_last_moment() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    for version in [Version::V257, Version::V252] {
        let script = Script { version, locks_on_reboot: vec![vec![UPGRADE]], ..Script::default() };
        let played = played(script, &request(SOON));
        let inhibited = RebootError::Inhibited { by: vec![named(UPGRADE)], waited: SOON };
        assert_eq!(played.outcome, Err(inhibited), "{version:?}");
        assert_eq!(played.reports, [vec![named(UPGRADE)]]);
        assert_eq!(played.calls, [ANNOUNCED, "RebootWithFlags 1", TAKEN_BACK]);
    }
}

#[test]
fn a_lock_that_is_there_at_the_last_moment_only() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    // Let go before anybody can look; older versions do not even say that it was a lock.
    let script = Script {
        version: Version::V252,
        locks_on_reboot: vec![vec![UPGRADE], vec![]],
        are_released_on_refusal: true,
        ..Script::default()
    };
    let played = played(script, &request(PATIENT));
    assert_eq!(played.outcome, Ok(asked()));
    assert!(played.reports.is_empty(), "{played:?}");
    let calls = [ANNOUNCED, "RebootWithFlags 1", TAKEN_BACK, ANNOUNCED, "RebootWithFlags 1"];
    assert_eq!(played.calls, calls);
}

#[test]
fn a_weak_lock_is_not_meant_for_root() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let played = played(Script { locks: vec![WEAK], ..Script::default() }, &request(PATIENT));
    assert_eq!(played.outcome, Ok(asked()));
    let calls = [ANNOUNCED, "RebootWithFlags 1", TAKEN_BACK, ANNOUNCED, "RebootWithFlags 0"];
    assert_eq!(played.calls, calls);
}
