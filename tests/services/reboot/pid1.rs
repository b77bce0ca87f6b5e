//! Reboots over systemd's private socket.

use std::time::{Duration, Instant};

use flameholder::host::systemd::pid1::Pid1Reboot;
use flameholder::host::systemd::reboot_port::{RebootBackend, RebootError};
use testbed::dbus::real_systemd::RealSystemd;

use crate::as_service;
use crate::reboot::{DEADLINE, SHORT};

const OWN: &str = "[Unit]\nDefaultDependencies=no\n";
/// Service without an end, in the slice that a shutdown does not stop.
const ENDLESS: &str = "[Unit]
DefaultDependencies=no
\
                       [Service]
Slice=-.slice
Type=oneshot
ExecStart=sleep infinity
";

/// Request two reboots and report the answers.
#[test]
#[ignore = "service: the systemd of another test runs it"]
fn reboot_twice_as_a_service() {
    let pid1 = Pid1Reboot::at(&as_service::socket()).with_answers_within(DEADLINE);
    as_service::report(&[pid1.reboot(), pid1.reboot()].map(|answer| format!("{answer:?}")));
}

/// Answers of systemd to two requests of a service.
fn answers(real: &RealSystemd) -> Vec<String> {
    as_service::answers_of(real, "reboot::pid1::reboot_twice_as_a_service", "", 2)
}

#[test]
fn reboot_target_is_started() {
    let real = RealSystemd::start(&[("endless.service", ENDLESS)]);
    let mark = real.file("mark");
    let target = format!("{OWN}Requires=mark.service endless.service\nAfter=endless.service\n");
    let service = format!("{OWN}[Service]\nType=oneshot\nExecStart=mkfifo {}\n", mark.display());
    real.define("reboot.target", &target);
    real.define("mark.service", &service);
    assert_eq!(answers(&real)[0], "Ok(Requested { over: [] })");
    // The job is queued, and the service starts a moment later.
    let until = Instant::now() + DEADLINE;
    while !mark.exists() {
        assert!(Instant::now() < until, "the service of the target does not start");
        std::thread::yield_now();
    }
}

#[test]
fn second_request_joins_the_shutdown_in_progress() {
    let target = format!("{OWN}Requires=shutdown.target\nAfter=shutdown.target\n");
    let units = [("endless.service", ENDLESS), ("reboot.target", target.as_str())];
    let real = RealSystemd::start(&units);
    real.define("shutdown.target", &format!("{OWN}Requires=endless.service\nAfter=endless.service\n"));
    let joined = "Ok(AlreadyPending(PendingShutdown { kind: Unknown, at: None }))";
    assert_eq!(answers(&real), ["Ok(Requested { over: [] })", joined]);
}

#[test]
fn missing_reboot_target_is_refused() {
    let real = RealSystemd::start(&[]);
    let refused = "Err(Refused { backend: Pid1, name: \"org.freedesktop.systemd1.NoSuchUnit\"";
    for answer in answers(&real) {
        assert!(answer.starts_with(refused), "{answer}");
    }
}

#[test]
fn systemd_is_unreachable_or_times_out_without_an_answer() {
    let directory = tempfile::tempdir().unwrap();
    let error = Pid1Reboot::of(directory.path()).reboot().unwrap_err();
    assert!(matches!(error, RebootError::Unreachable { backend: RebootBackend::Pid1, .. }), "{error:?}");
    let socket = directory.path().join("private");
    let silent = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let error = Pid1Reboot::at(&socket).with_answers_within(SHORT).reboot().unwrap_err();
    assert_eq!(
        error,
        RebootError::TimedOut { backend: RebootBackend::Pid1, deadline: Duration::from_millis(300) }
    );
    drop(silent);
    let error = Pid1Reboot::at(&socket).reboot().unwrap_err();
    assert!(matches!(error, RebootError::Unreachable { backend: RebootBackend::Pid1, .. }), "{error:?}");
}
