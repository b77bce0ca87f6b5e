//! A logind that is silent, slow, denies or dies, before it is asked for the reboot and after.

use std::time::Duration;

use flameholder::host::systemd::logind::LogindReboot;
use flameholder::host::systemd::reboot_port::{RebootBackend, RebootControl as _, RebootError};
use flameholder::host::systemd::service_port::ReportedError;

use crate::reboot::{PATIENT, SOON, asked, played, request};
use testbed::dbus::fake_logind::{FakeLogind, Fault, Lock, Script};
use testbed::dbus::private_bus::PrivateBus;

const LOCK: Lock = ("shutdown", "dpkg", "packages are unpacked", "block", 0, 41);
/// What is asked before the reboot is.
const BEFORE: [&str; 4] = ["PreparingForShutdown", "ScheduledShutdown", "ListInhibitors", "SetWallMessage"];
const REBOOT: &str = "RebootWithFlags";

fn failing(at: &'static str, fault: Fault) -> Script {
    Script { fault: Some((at, fault)), ..Script::default() }
}

/// The same with no more patience than it takes to see that nothing comes.
fn impatiently(script: Script, answer: Duration) -> RebootError {
    let bus = PrivateBus::start(&[]);
    let _fake = FakeLogind::start(&bus, script);
    let logind = LogindReboot::at(&bus.address).with_answers_within(answer);
    logind.reboot(&request(PATIENT), &mut |_| {}).unwrap_err()
}

#[test]
fn silent() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    for at in BEFORE {
        let silent = RebootError::TimedOut { backend: RebootBackend::Logind, deadline: SOON };
        assert_eq!(impatiently(failing(at, Fault::Silent), SOON), silent, "{at}");
    }
    // The answers before it have to come in time.
    let error = impatiently(failing(REBOOT, Fault::Silent), Duration::from_secs(3));
    assert!(error.is_uncertain(), "{error:?}");
}

#[test]
fn slow() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    for at in BEFORE.into_iter().chain([REBOOT]) {
        let played = played(failing(at, Fault::Slow), &request(PATIENT));
        assert_eq!(played.outcome, Ok(asked()), "{at}");
    }
}

#[test]
fn dies() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    for fault in [Fault::Dies, Fault::EndsBus] {
        for at in BEFORE {
            let error = played(failing(at, fault), &request(PATIENT)).outcome.unwrap_err();
            assert!(matches!(error, RebootError::Unreachable { .. }), "{at}, {fault:?}: {error:?}");
        }
        let error = played(failing(REBOOT, fault), &request(PATIENT)).outcome.unwrap_err();
        assert!(error.is_uncertain(), "{fault:?}: {error:?}");
    }
}

#[test]
fn dies_while_a_lock_is_waited_for() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    // Its second listing is the one that follows the signal.
    let script = Script { locks: vec![LOCK], later_locks: vec![vec![LOCK]], ..Script::default() };
    let bus = PrivateBus::start(&[]);
    let fake = FakeLogind::start(&bus, script);
    let mut fake = Some(fake);
    let logind = LogindReboot::at(&bus.address).with_answers_within(PATIENT);
    let outcome = logind.reboot(&request(PATIENT), &mut |_| drop(fake.take()));
    assert!(matches!(outcome, Err(RebootError::Unreachable { .. })), "{outcome:?}");
}

#[test]
fn denies() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let denied =
        RebootError::AccessDenied { backend: RebootBackend::Logind, source: ReportedError("not you".into()) };
    for at in ["PreparingForShutdown", "ScheduledShutdown", "ListInhibitors", REBOOT] {
        assert_eq!(
            played(failing(at, Fault::Denies), &request(PATIENT)).outcome,
            Err(denied.clone()),
            "{at}"
        );
    }
    // A reboot whose reason cannot be told is a reboot still.
    assert_eq!(played(failing("SetWallMessage", Fault::Denies), &request(PATIENT)).outcome, Ok(asked()));
}

#[test]
fn nobody_there() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let bus = PrivateBus::start(&[]);
    let logind = LogindReboot::at(&bus.address).with_answers_within(PATIENT);
    let nobody = logind.reboot(&request(PATIENT), &mut |_| {}).unwrap_err();
    assert!(matches!(nobody, RebootError::Unreachable { .. }), "{nobody:?}");
    bus.kill().now();
    let no_bus = logind.pending_shutdown().unwrap_err();
    assert!(matches!(no_bus, RebootError::Unreachable { .. }), "{no_bus:?}");
}
