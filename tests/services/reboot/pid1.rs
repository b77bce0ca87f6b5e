//! A reboot over systemd's private socket.

use std::path::Path;
use std::time::{Duration, Instant};

use flameholder::core::enablement::UnitName;
use flameholder::core::state::service_action::ServiceAction;
use flameholder::host::systemd::pid1::Pid1Reboot;
use flameholder::host::systemd::reboot_port::{RebootBackend, RebootError};
use flameholder::host::systemd::service_port::ServiceControl as _;

use crate::reboot::{PATIENT, SOON};
use testbed::dbus::real_systemd::RealSystemd;

const OWN: &str = "[Unit]\nDefaultDependencies=no\n";
/// In the slice that a shutdown leaves alone.
const ENDLESS: &str = "[Unit]
DefaultDependencies=no
\
                       [Service]
Slice=-.slice
Type=oneshot
ExecStart=sleep infinity
";
/// Where systemd listens, and where the answers go.
const PLACES: [&str; 2] = ["FLAMEHOLDER_TEST_SOCKET", "FLAMEHOLDER_TEST_ANSWERS"];

/// Asks twice. systemd hangs up on a peer outside its process namespace, which is the test's own;
/// so it runs this as a service.
#[test]
#[ignore = "only a systemd that another test started runs it"]
fn asked_from_within() {
    let [socket, answers] = PLACES.map(|name| std::env::var(name).unwrap());
    let pid1 = Pid1Reboot::at(Path::new(&socket)).with_answers_within(PATIENT);
    let said = [pid1.reboot(), pid1.reboot()].map(|answer| format!("{answer:?}\n"));
    std::fs::write(answers, said.concat()).unwrap();
}

/// What systemd answers, asked twice by a service.
fn answers(real: &RealSystemd) -> [String; 2] {
    let (file, program) = (real.file("answers"), std::env::current_exe().unwrap());
    let [socket, answers] = PLACES;
    let unit = format!(
        "{OWN}[Service]\nSlice=-.slice\nType=oneshot\nExecStart={} --ignored --exact reboot::pid1::asked_from_within\n\
         Environment={socket}={} {answers}={}\n",
        program.display(),
        real.file("run/systemd/private").display(),
        file.display()
    );
    real.define("asks.service", &unit);
    let unit = UnitName::parse("asks.service").unwrap();
    real.systemd.perform(&ServiceAction::DaemonReload).unwrap();
    // The bus may go with the shutdown, before it can tell.
    drop(real.systemd.perform(&ServiceAction::Restart { unit }));
    let until = Instant::now() + PATIENT;
    loop {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        if let [first, second] = text.lines().collect::<Vec<_>>()[..]
            && text.ends_with('\n')
        {
            return [first, second].map(str::to_owned);
        }
        assert!(Instant::now() < until, "waited in vain for the answers; there is {text:?}");
        std::thread::yield_now();
    }
}

#[test]
fn systemd_starts_the_target() {
    let real = RealSystemd::start(&[("endless.service", ENDLESS)]);
    let mark = real.file("mark");
    let target = format!("{OWN}Requires=mark.service endless.service\nAfter=endless.service\n");
    let service = format!("{OWN}[Service]\nType=oneshot\nExecStart=mkfifo {}\n", mark.display());
    real.define("reboot.target", &target);
    real.define("mark.service", &service);
    assert_eq!(answers(&real)[0], "Ok(Requested { over: [] })");
    // The job is queued; what it starts comes a moment later.
    let until = Instant::now() + PATIENT;
    while !mark.exists() {
        assert!(Instant::now() < until, "waited in vain for the target's service");
        std::thread::yield_now();
    }
}

#[test]
fn systemd_that_shuts_down_is_not_asked_again() {
    let target = format!("{OWN}Requires=shutdown.target\nAfter=shutdown.target\n");
    let units = [("endless.service", ENDLESS), ("reboot.target", target.as_str())];
    let real = RealSystemd::start(&units);
    real.define("shutdown.target", &format!("{OWN}Requires=endless.service\nAfter=endless.service\n"));
    let joined = "Ok(AlreadyPending(PendingShutdown { kind: Unknown, at: None }))";
    assert_eq!(answers(&real), ["Ok(Requested { over: [] })", joined]);
}

#[test]
fn systemd_without_the_target() {
    let real = RealSystemd::start(&[]);
    let refused = "Err(Refused { whom: Pid1, name: \"org.freedesktop.systemd1.NoSuchUnit\"";
    for answer in answers(&real) {
        assert!(answer.starts_with(refused), "{answer}");
    }
}

#[test]
fn nobody_listens_or_answers() {
    let directory = tempfile::tempdir().unwrap();
    let error = Pid1Reboot::of(directory.path()).reboot().unwrap_err();
    assert!(matches!(error, RebootError::Unreachable { backend: RebootBackend::Pid1, .. }), "{error:?}");
    let socket = directory.path().join("private");
    let deaf = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let error = Pid1Reboot::at(&socket).with_answers_within(SOON).reboot().unwrap_err();
    assert_eq!(
        error,
        RebootError::TimedOut { backend: RebootBackend::Pid1, deadline: Duration::from_millis(300) }
    );
    drop(deaf);
    let error = Pid1Reboot::at(&socket).reboot().unwrap_err();
    assert!(matches!(error, RebootError::Unreachable { backend: RebootBackend::Pid1, .. }), "{error:?}");
}
