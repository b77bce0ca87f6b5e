//! Shutdowns that are to come anyway: joined, or named as what is in the way.

use std::time::{Duration, SystemTime};

use flameholder::host::systemd::logind::LogindReboot;
use flameholder::host::systemd::reboot_port::{
    PendingShutdown, RebootControl as _, RebootError, RebootOutcome, ShutdownKind,
};

use crate::reboot::{PATIENT, asked, played, request};
use testbed::dbus::fake_logind::{FakeLogind, Script, Version};
use testbed::dbus::private_bus::PrivateBus;

const WHEN: u64 = 1_700_000_000_000_000;

fn scheduled(kind: ShutdownKind) -> PendingShutdown {
    PendingShutdown { kind, at: Some(SystemTime::UNIX_EPOCH + Duration::from_micros(WHEN)) }
}

fn in_progress(kind: ShutdownKind) -> PendingShutdown {
    PendingShutdown { kind, at: None }
}

/// None is asked for, and so none is announced.
fn assert_left_alone(script: Script, expected: &Result<RebootOutcome, RebootError>) {
    let played = played(script, &request(PATIENT));
    assert_eq!(played.outcome, *expected);
    assert!(played.calls.is_empty(), "{played:?}");
}

#[test]
fn a_reboot_that_comes_anyway_is_joined() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let preparing = |version, preparing| Script { version, preparing: Some(preparing), ..Script::default() };
    let joined = |shutdown| Ok(RebootOutcome::AlreadyPending(shutdown));
    assert_left_alone(preparing(Version::V257, "reboot"), &joined(in_progress(ShutdownKind::Reboot)));
    assert_left_alone(preparing(Version::V252, "reboot"), &joined(in_progress(ShutdownKind::Unknown)));
    let script = Script { scheduled: ("reboot", WHEN), ..Script::default() };
    assert_left_alone(script, &joined(scheduled(ShutdownKind::Reboot)));
}

#[test]
fn a_shutdown_of_another_kind_is_in_the_way() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    for word in ["poweroff", "halt", "kexec", "soft-reboot"] {
        let other = |shutdown| Err(RebootError::OtherShutdown { shutdown });
        let kind = ShutdownKind::Other(word.to_owned());
        let script = Script { preparing: Some(word), ..Script::default() };
        assert_left_alone(script, &other(in_progress(kind.clone())));
        let script = Script { scheduled: (word, WHEN), ..Script::default() };
        assert_left_alone(script, &other(scheduled(kind)));
    }
    let error = RebootError::OtherShutdown { shutdown: scheduled(ShutdownKind::Other("poweroff".into())) };
    let text = "rebooting: a shutdown of another kind (poweroff) is scheduled; \
                let it happen, or cancel a scheduled one with `shutdown -c`, and try again";
    assert_eq!(error.to_string(), text);
}

#[test]
fn a_dry_run_is_none() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let script = Script { scheduled: ("dry-poweroff", WHEN), ..Script::default() };
    assert_eq!(played(script, &request(PATIENT)).outcome, Ok(asked()));
}

#[test]
fn a_shutdown_that_overtakes_the_reboot() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let played = played(Script { is_overtaken: true, ..Script::default() }, &request(PATIENT));
    let shutdown = in_progress(ShutdownKind::Other("poweroff".into()));
    assert_eq!(played.outcome, Err(RebootError::OtherShutdown { shutdown }));
    assert_eq!(played.calls.last().unwrap(), "SetWallMessage before false");
}

#[test]
fn what_is_to_come_and_who_delays_it_can_be_asked() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let bus = PrivateBus::start(&[]);
    let script = Script {
        scheduled: ("reboot", WHEN),
        locks: vec![("shutdown", "kubelet", "pods end", "delay", 0, 44), ("idle", "x", "y", "block", 0, 1)],
        ..Script::default()
    };
    let _fake = FakeLogind::start(&bus, script);
    let logind = LogindReboot::at(&bus.address).with_answers_within(PATIENT);
    assert_eq!(logind.pending_shutdown(), Ok(Some(scheduled(ShutdownKind::Reboot))));
    let locks = logind.inhibitors().unwrap();
    let [lock] = locks.as_slice() else { panic!("{locks:?}") };
    assert_eq!((lock.who.as_str(), lock.mode.as_str(), lock.pid), ("kubelet", "delay", 44));
    assert!(!lock.blocks());
}
