//! Faults of logind before and at the request for the reboot: no answer, a late answer, access denied, its
//! end.

use std::time::Duration;

use flameholder::host::systemd::logind::LogindReboot;
use flameholder::host::systemd::reboot_port::{RebootBackend, RebootControl as _, RebootError};
use flameholder::host::systemd::service_port::ReportedError;
use testbed::dbus::fake_logind::{FakeLogind, Fault, Lock, Script};
use testbed::dbus::private_bus::PrivateBus;

use crate::reboot::{DEADLINE, SHORT, request, requested, run_reboot};

const LOCK: Lock = ("shutdown", "dpkg", "packages are unpacked", "block", 0, 41);
/// Properties and methods that are called before the reboot.
const BEFORE: [&str; 4] = ["PreparingForShutdown", "ScheduledShutdown", "ListInhibitors", "SetWallMessage"];
const REBOOT: &str = "RebootWithFlags";

/// Script with a fault at this call.
fn faulty(at: &'static str, fault: Fault) -> Script {
    Script { fault: Some((at, fault)), ..Script::default() }
}

/// Request a reboot with this deadline for each answer of logind, and return the error.
fn reboot_error(script: Script, deadline: Duration) -> RebootError {
    let bus = PrivateBus::start(&[]);
    let _fake = FakeLogind::start(&bus, script);
    let logind = LogindReboot::at(&bus.address).with_answers_within(deadline);
    logind.reboot(&request(DEADLINE), &mut |_| {}).unwrap_err()
}

#[test]
fn silent_logind_times_out() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    for at in BEFORE {
        let silent = RebootError::TimedOut { backend: RebootBackend::Logind, deadline: SHORT };
        assert_eq!(reboot_error(faulty(at, Fault::Silent), SHORT), silent, "{at}");
    }
    // The deadline must allow for the answers before.
    let error = reboot_error(faulty(REBOOT, Fault::Silent), Duration::from_secs(3));
    assert!(error.is_uncertain(), "{error:?}");
}

#[test]
fn slow_logind_is_waited_for() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    for at in BEFORE.into_iter().chain([REBOOT]) {
        let run = run_reboot(faulty(at, Fault::Slow), &request(DEADLINE));
        assert_eq!(run.outcome, Ok(requested()), "{at}");
    }
}

#[test]
fn logind_that_ends_is_unreachable() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    for fault in [Fault::Dies, Fault::EndsBus] {
        for at in BEFORE {
            let error = run_reboot(faulty(at, fault), &request(DEADLINE)).outcome.unwrap_err();
            assert!(matches!(error, RebootError::Unreachable { .. }), "{at}, {fault:?}: {error:?}");
        }
        let error = run_reboot(faulty(REBOOT, fault), &request(DEADLINE)).outcome.unwrap_err();
        assert!(error.is_uncertain(), "{fault:?}: {error:?}");
    }
}

#[test]
fn logind_that_ends_during_the_wait_for_a_lock_is_unreachable() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    // The second listing of locks follows the signal.
    let script = Script { locks: vec![LOCK], later_locks: vec![vec![LOCK]], ..Script::default() };
    let bus = PrivateBus::start(&[]);
    let fake = FakeLogind::start(&bus, script);
    let mut fake = Some(fake);
    let logind = LogindReboot::at(&bus.address).with_answers_within(DEADLINE);
    let outcome = logind.reboot(&request(DEADLINE), &mut |_| drop(fake.take()));
    assert!(matches!(outcome, Err(RebootError::Unreachable { .. })), "{outcome:?}");
}

#[test]
fn denied_access_is_reported_except_for_the_wall_message() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let denied =
        RebootError::AccessDenied { backend: RebootBackend::Logind, source: ReportedError("not you".into()) };
    for at in ["PreparingForShutdown", "ScheduledShutdown", "ListInhibitors", REBOOT] {
        assert_eq!(
            run_reboot(faulty(at, Fault::Denies), &request(DEADLINE)).outcome,
            Err(denied.clone()),
            "{at}"
        );
    }
    // The wall message is optional.
    assert_eq!(
        run_reboot(faulty("SetWallMessage", Fault::Denies), &request(DEADLINE)).outcome,
        Ok(requested())
    );
}

#[test]
fn logind_is_unreachable_without_a_bus_or_a_service_on_it() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let bus = PrivateBus::start(&[]);
    let logind = LogindReboot::at(&bus.address).with_answers_within(DEADLINE);
    let no_logind = logind.reboot(&request(DEADLINE), &mut |_| {}).unwrap_err();
    assert!(matches!(no_logind, RebootError::Unreachable { .. }), "{no_logind:?}");
    bus.kill().now();
    let no_bus = logind.pending_shutdown().unwrap_err();
    assert!(matches!(no_bus, RebootError::Unreachable { .. }), "{no_bus:?}");
}
