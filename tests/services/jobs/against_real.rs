//! The same against a real systemd, whose behaviour the fake assumes.

use std::time::Duration;

use flameholder::core::state::service_action::ServiceAction;
use flameholder::host::systemd::service_port::{ServiceControl as _, ServiceError};
use flameholder::host::systemd::unit_jobs::ServiceDeadlines;
use testbed::dbus::real_systemd::RealSystemd;

use crate::jobs::{reload, restart};

/// Unit file of a service that logs `word` at each start, and `again` at each reload.
fn logging_service(real: &RealSystemd, word: &str) -> String {
    let log = real.file("log");
    let log = log.display();
    format!(
        "[Service]\nType=exec\nExecStartPre=sh -c 'echo {word} >> {log}'\nExecStart=sleep infinity\n\
         ExecReload=sh -c 'echo again >> {log}'\n"
    )
}

fn log(real: &RealSystemd) -> String {
    std::fs::read_to_string(real.file("log")).unwrap_or_default()
}

#[test]
fn restart_uses_a_new_definition_only_after_a_daemon_reload() {
    let real = RealSystemd::start(&[]);
    let systemd = &real.systemd;
    real.define("a.service", &logging_service(&real, "first"));
    assert_eq!(systemd.perform(&ServiceAction::DaemonReload), Ok(()));
    assert_eq!(systemd.perform(&restart("a.service")), Ok(()));
    assert_eq!(systemd.perform(&reload("a.service")), Ok(()));
    assert_eq!(log(&real), "first\nagain\n");
    real.define("a.service", &logging_service(&real, "second"));
    assert_eq!(systemd.perform(&restart("a.service")), Ok(()));
    assert_eq!(log(&real), "first\nagain\nfirst\n");
    assert_eq!(systemd.perform(&ServiceAction::DaemonReload), Ok(()));
    assert_eq!(systemd.perform(&restart("a.service")), Ok(()));
    assert_eq!(log(&real), "first\nagain\nfirst\nsecond\n");
}

#[test]
fn stop_commands_are_those_of_the_unit() {
    let unit = "[Service]\nType=oneshot\nExecStart=true\nExecStop=/bin/echo a 'b c'\nExecStop=-/bin/true\n";
    let real = RealSystemd::start(&[("a.service", unit)]);
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let commands = vec![words(&["/bin/echo", "a", "b c"]), words(&["/bin/true"])];
    assert_eq!(real.systemd.stop_commands("a.service"), Some(commands));
    // A unit that does not exist has none.
    assert_eq!(real.systemd.stop_commands("b.service"), Some(Vec::new()));
}

#[test]
fn failed_units_and_jobs_are_reported() {
    let units = [
        ("a.service", "[Service]\nType=oneshot\nExecStart=false\n"),
        (
            "needs.service",
            "[Unit]\nRequires=a.service\nAfter=a.service\n[Service]\nExecStart=sleep infinity\n",
        ),
        ("b.service", "[Service]\nType=exec\nExecStart=sleep infinity\nExecReload=false\n"),
        ("again.service", "[Service]\nType=notify\nRestart=always\nRestartSec=600\nExecStart=false\n"),
    ];
    let real = RealSystemd::start(&units);
    let failed = |action| ServiceError::Failed { action, result: Some("exit-code".into()) };
    let systemd = &real.systemd;
    assert_eq!(systemd.perform(&restart("a.service")), Err(failed(restart("a.service"))));
    let error = systemd.perform(&restart("needs.service"));
    assert!(matches!(error, Err(ServiceError::JobEnded { .. })), "{error:?}");
    assert_eq!(systemd.perform(&restart("b.service")), Ok(()));
    assert_eq!(systemd.perform(&reload("b.service")), Err(failed(reload("b.service"))));
    let again = restart("again.service");
    let error = systemd.perform(&again);
    assert!(matches!(error, Err(ServiceError::Failed { .. })), "{error:?}");
}

#[test]
fn unit_whose_requirement_failed_is_started_once_that_succeeds() {
    let real = RealSystemd::start(&[]);
    let flag = real.file("flag");
    let flag_is_there =
        format!("[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=test -e {}\n", flag.display());
    real.define("first.service", &flag_is_there);
    let needs = "[Unit]\nRequires=first.service\nAfter=first.service\n[Service]\nType=exec\nExecStart=sleep infinity\nExecReload=true\n";
    real.define("needs.service", needs);
    let error = real.systemd.perform(&restart("needs.service"));
    assert!(matches!(error, Err(ServiceError::JobEnded { .. })), "{error:?}");
    std::fs::write(&flag, "").unwrap();
    let start = || real.systemd.start_left_behind("needs.service");
    assert_eq!(start(), Ok(true));
    // A reload waits for the start that is queued.
    real.systemd.perform(&reload("needs.service")).unwrap();
    assert_eq!(start(), Ok(false), "it is active");
    assert!(real.systemd.start_left_behind("absent.service").is_err());
}

#[test]
fn units_without_a_usable_definition_are_reported() {
    let units = [
        ("a.service", "[Service]\nExecStart=sleep infinity\n"),
        ("bad.service", "[Service]\nType=oneshot\n"),
        ("idle.service", "[Service]\nExecStart=sleep infinity\nExecReload=true\n"),
        ("dead.service", "[Service]\nType=oneshot\nExecStart=false\nExecReload=true\n"),
        ("unmet.service", "[Unit]\nConditionPathExists=/nowhere\n[Service]\nExecStart=false\n"),
    ];
    let real = RealSystemd::start(&units);
    let systemd = &real.systemd;
    std::os::unix::fs::symlink("/dev/null", real.file("units/masked.service")).unwrap();
    let (absent, masked) = (restart("absent.service"), restart("masked.service"));
    assert_eq!(systemd.perform(&absent), Err(ServiceError::NotFound { action: absent.clone() }));
    assert_eq!(systemd.perform(&masked), Err(ServiceError::Masked { action: masked.clone() }));
    let error = systemd.perform(&restart("bad.service"));
    assert!(matches!(error, Err(ServiceError::BadUnitFile { .. })), "{error:?}");
    let unable = reload("a.service");
    assert_eq!(systemd.perform(&unable), Err(ServiceError::NotReloadable { action: unable.clone() }));
    assert_eq!(systemd.perform(&reload("idle.service")), Ok(()));
    assert!(systemd.perform(&restart("dead.service")).is_err());
    let dead = reload("dead.service");
    let failed = ServiceError::Failed { action: dead.clone(), result: Some("exit-code".into()) };
    assert_eq!(systemd.perform(&dead), Err(failed));
    assert_eq!(systemd.perform(&restart("unmet.service")), Ok(()));
}

#[test]
fn slow_start_passes_the_deadline() {
    let units = [("a.service", "[Service]\nType=oneshot\nExecStart=sleep infinity\n")];
    let real = RealSystemd::start(&units);
    let deadline = Duration::from_millis(300);
    let systemd = real
        .systemd
        .clone()
        .with_deadlines(ServiceDeadlines { restart: deadline, ..ServiceDeadlines::default() });
    let action = restart("a.service");
    let late = ServiceError::DeadlinePassed { action: action.clone(), deadline };
    assert_eq!(systemd.perform(&action), Err(late));
}
