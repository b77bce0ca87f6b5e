//! Scheduled shutdowns and shutdowns in progress: a reboot is joined, any other kind is an error.

use std::time::{Duration, SystemTime};

use flameholder::host::systemd::logind::LogindReboot;
use flameholder::host::systemd::reboot_port::{
    PendingShutdown, RebootControl as _, RebootError, RebootOutcome, ShutdownKind,
};
use testbed::dbus::fake_logind::{FakeLogind, Script, Version};
use testbed::dbus::private_bus::PrivateBus;

use crate::reboot::{DEADLINE, request, requested, run_reboot};

const WHEN: u64 = 1_700_000_000_000_000;

fn scheduled(kind: ShutdownKind) -> PendingShutdown {
    PendingShutdown { kind, at: Some(SystemTime::UNIX_EPOCH + Duration::from_micros(WHEN)) }
}

fn in_progress(kind: ShutdownKind) -> PendingShutdown {
    PendingShutdown { kind, at: None }
}

/// Panics unless the outcome is `expected` and logind is asked for neither a reboot nor a wall message.
fn assert_no_request(script: Script, expected: &Result<RebootOutcome, RebootError>) {
    let run = run_reboot(script, &request(DEADLINE));
    assert_eq!(run.outcome, *expected);
    assert!(run.calls.is_empty(), "{run:?}");
}

#[test]
fn reboot_that_is_scheduled_or_in_progress_is_joined() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let preparing = |version, preparing| Script { version, preparing: Some(preparing), ..Script::default() };
    let joined = |shutdown| Ok(RebootOutcome::AlreadyPending(shutdown));
    assert_no_request(preparing(Version::V257, "reboot"), &joined(in_progress(ShutdownKind::Reboot)));
    assert_no_request(preparing(Version::V252, "reboot"), &joined(in_progress(ShutdownKind::Unknown)));
    let script = Script { scheduled: ("reboot", WHEN), ..Script::default() };
    assert_no_request(script, &joined(scheduled(ShutdownKind::Reboot)));
}

#[test]
fn shutdown_of_another_kind_is_an_error() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    for word in ["poweroff", "halt", "kexec", "soft-reboot"] {
        let other = |shutdown| Err(RebootError::OtherShutdown { shutdown });
        let kind = ShutdownKind::Other(word.to_owned());
        let script = Script { preparing: Some(word), ..Script::default() };
        assert_no_request(script, &other(in_progress(kind.clone())));
        let script = Script { scheduled: (word, WHEN), ..Script::default() };
        assert_no_request(script, &other(scheduled(kind)));
    }
    let error = RebootError::OtherShutdown { shutdown: scheduled(ShutdownKind::Other("poweroff".into())) };
    let text = "rebooting: a shutdown of another kind (poweroff) is scheduled; \
                let it happen, or cancel a scheduled one with `shutdown -c`, and try again";
    assert_eq!(error.to_string(), text);
}

#[test]
fn scheduled_dry_run_does_not_count() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let script = Script { scheduled: ("dry-poweroff", WHEN), ..Script::default() };
    assert_eq!(run_reboot(script, &request(DEADLINE)).outcome, Ok(requested()));
}

#[test]
fn shutdown_of_another_client_overtakes_the_reboot() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let run = run_reboot(Script { is_overtaken: true, ..Script::default() }, &request(DEADLINE));
    let shutdown = in_progress(ShutdownKind::Other("poweroff".into()));
    assert_eq!(run.outcome, Err(RebootError::OtherShutdown { shutdown }));
    assert_eq!(run.calls.last().unwrap(), "SetWallMessage before false");
}

#[test]
fn pending_shutdown_and_delay_locks_are_listed() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let bus = PrivateBus::start(&[]);
    let script = Script {
        scheduled: ("reboot", WHEN),
        locks: vec![("shutdown", "kubelet", "pods end", "delay", 0, 44), ("idle", "x", "y", "block", 0, 1)],
        ..Script::default()
    };
    let _fake = FakeLogind::start(&bus, script);
    let logind = LogindReboot::at(&bus.address).with_answers_within(DEADLINE);
    assert_eq!(logind.pending_shutdown(), Ok(Some(scheduled(ShutdownKind::Reboot))));
    let locks = logind.inhibitors().unwrap();
    let [lock] = locks.as_slice() else { panic!("{locks:?}") };
    assert_eq!((lock.who.as_str(), lock.mode.as_str(), lock.pid), ("kubelet", "delay", 44));
    assert!(!lock.blocks());
}
