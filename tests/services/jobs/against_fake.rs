//! Every course that a job can take, by a systemd that follows a script.

use std::collections::BTreeMap;
use std::time::Duration;

use flameholder::core::state::service_action::ServiceAction;
use flameholder::host::systemd::service_port::{JobResult, ReportedError, ServiceControl as _, ServiceError};
use flameholder::host::systemd::unit_jobs::{ServiceDeadlines, SystemdServices};

use crate::jobs::{reload, restart};
use testbed::dbus::fake_systemd::{FakeSystemd, Reaction, Script};
use testbed::dbus::private_bus::PrivateBus;

const UNIT: &str = "org.freedesktop.systemd1.Unit";
const SERVICE: &str = "org.freedesktop.systemd1.Service";

/// Long enough for every answer that comes, short enough to wait for one that does not.
const NEVER: Duration = Duration::from_millis(300);

/// What a deadline is set to where the answer comes: a test that hangs fails.
const PATIENT: ServiceDeadlines = ServiceDeadlines {
    bus: Duration::from_secs(20),
    daemon_reload: Duration::from_secs(20),
    reload: Duration::from_secs(20),
    restart: Duration::from_secs(20),
};

/// What comes of `action`, and what systemd was asked.
fn played(action: &ServiceAction, script: Script) -> (Result<(), ServiceError>, Vec<String>) {
    let bus = PrivateBus::start(&[]);
    let fake = FakeSystemd::start(&bus.address, script);
    let outcome = SystemdServices::at(&bus.address).with_deadlines(PATIENT).perform(action);
    (outcome, fake.calls())
}

fn outcome(action: &ServiceAction, job: Vec<Reaction>) -> Result<(), ServiceError> {
    played(action, Script { job, ..Script::default() }).0
}

fn state(job: Vec<Reaction>, words: &[(&'static str, &'static str, &'static str)]) -> Script {
    let words = words.iter().map(|(interface, name, word)| ((*interface, *name), *word));
    Script { job, properties: words.collect::<BTreeMap<_, _>>(), ..Script::default() }
}

fn ended(result: &'static str) -> Vec<Reaction> {
    vec![Reaction::Job(7), Reaction::Removed(7, result)]
}

#[test]
fn a_job_that_is_done() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let script = |job| Script { job, ..Script::default() };
    let (outcome, calls) = played(&restart("a.service"), script(ended("done")));
    assert_eq!(outcome, Ok(()));
    assert_eq!(calls, ["Subscribe", "RestartUnit a.service replace"]);
    let (outcome, calls) = played(&reload("a.service"), script(ended("done")));
    assert_eq!(outcome, Ok(()));
    assert_eq!(calls, ["Subscribe", "ReloadUnit a.service replace"]);
    let (outcome, calls) = played(&ServiceAction::DaemonReload, Script::default());
    assert_eq!(outcome, Ok(()));
    assert_eq!(calls, ["Reload"]);
}

#[test]
fn a_job_that_is_over_before_its_number_is_known() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let early = vec![Reaction::Removed(7, "done"), Reaction::Job(7)];
    assert_eq!(outcome(&restart("a.service"), early), Ok(()));
}

#[test]
fn other_jobs_and_other_peers_do_not_count() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let others = (100..300).map(|job| Reaction::Removed(job, "failed"));
    let mut acts: Vec<Reaction> = others.clone().collect();
    acts.extend([Reaction::Forged(7, "canceled"), Reaction::Job(7)]);
    acts.extend(others);
    acts.extend([
        Reaction::Forged(7, "canceled"),
        Reaction::Removed(70, "failed"),
        Reaction::Removed(7, "done"),
    ]);
    assert_eq!(outcome(&restart("a.service"), acts), Ok(()));
}

#[test]
fn a_job_that_fails() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let script = state(ended("failed"), &[(SERVICE, "Result", "exit-code")]);
    let action = restart("a.service");
    let error = played(&action, script).0.unwrap_err();
    assert_eq!(error, ServiceError::Failed { action, result: Some("exit-code".into()) });
    assert_eq!(
        error.to_string(),
        "restarting a.service: unit failed (exit-code); see `journalctl -u a.service`"
    );
    // The unit runs on after a reload that failed.
    let words = [(SERVICE, "Result", "success"), (SERVICE, "ReloadResult", "timeout")];
    let action = reload("a.service");
    let failed = ServiceError::Failed { action: action.clone(), result: Some("timeout".into()) };
    assert_eq!(played(&action, state(ended("failed"), &words)).0, Err(failed));
}

#[test]
fn a_service_that_dies_right_after_its_start() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let action = restart("a.service");
    let failed = || Err(ServiceError::Failed { action: action.clone(), result: Some("signal".into()) });
    for (name, word) in [("ActiveState", "failed"), ("SubState", "auto-restart")] {
        let script = state(ended("done"), &[(UNIT, name, word), (SERVICE, "Result", "signal")]);
        assert_eq!(played(&action, script).0, failed(), "{word}");
    }
}

#[test]
fn every_other_end_of_a_job() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let action = restart("a.service");
    for (result, end) in [
        ("skipped", None),
        ("canceled", Some(JobResult::Canceled)),
        ("timeout", Some(JobResult::TimedOut)),
        ("dependency", Some(JobResult::Dependency)),
        ("invalid", Some(JobResult::Other("invalid".into()))),
        ("news", Some(JobResult::Other("news".into()))),
    ] {
        let expected = end.map_or(Ok(()), |end| Err(ServiceError::JobEnded { action: action.clone(), end }));
        assert_eq!(outcome(&action, ended(result)), expected, "{result}");
    }
}

#[test]
fn a_reload_of_a_unit_that_does_not_run() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let action = reload("a.service");
    let script = |active| state(ended("invalid"), &[(UNIT, "ActiveState", active), (SERVICE, "Result", "x")]);
    assert_eq!(played(&action, script("inactive")).0, Ok(()));
    let failed = ServiceError::Failed { action: action.clone(), result: Some("x".into()) };
    assert_eq!(played(&action, script("failed")).0, Err(failed));
    let end = JobResult::Other("invalid".into());
    let rejected = ServiceError::JobEnded { action: action.clone(), end };
    assert_eq!(played(&action, script("active")).0, Err(rejected));
}

#[test]
fn what_systemd_refuses() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let action = reload("a.service");
    let source = || ReportedError("says so".into());
    let (of, name) = (|| action.clone(), "org.freedesktop.systemd1.ShuttingDown");
    for (error, expected) in [
        ("org.freedesktop.systemd1.NoSuchUnit", ServiceError::NotFound { action: of() }),
        ("org.freedesktop.systemd1.UnitMasked", ServiceError::Masked { action: of() }),
        (
            "org.freedesktop.systemd1.BadUnitSetting",
            ServiceError::BadUnitFile { action: of(), source: source() },
        ),
        ("org.freedesktop.systemd1.JobTypeNotApplicable", ServiceError::NotReloadable { action: of() }),
        (
            "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired",
            ServiceError::AccessDenied { action: of(), source: source() },
        ),
        (name, ServiceError::Refused { action: of(), name: name.into(), source: source() }),
    ] {
        assert_eq!(outcome(&action, vec![Reaction::Refuse(error, "says so")]), Err(expected), "{error}");
    }
}

#[test]
fn what_the_bus_denies() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let bus = PrivateBus::start(&["RestartUnit", "Reload"]);
    let fake = FakeSystemd::start(&bus.address, Script::default());
    let systemd = SystemdServices::at(&bus.address).with_deadlines(PATIENT);
    for action in [restart("a.service"), ServiceAction::DaemonReload] {
        let error = systemd.perform(&action).unwrap_err();
        assert!(matches!(error, ServiceError::AccessDenied { .. }), "{error:?}");
    }
    assert_eq!(fake.calls(), ["Subscribe"]);
}

#[test]
fn what_never_ends() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let bus = PrivateBus::start(&[]);
    let script = Script { job: vec![Reaction::Job(7)], ignores_reload: true, ..Script::default() };
    let _fake = FakeSystemd::start(&bus.address, script);
    let deadlines = ServiceDeadlines { daemon_reload: NEVER, reload: NEVER, restart: NEVER, ..PATIENT };
    let systemd = SystemdServices::at(&bus.address).with_deadlines(deadlines);
    for action in [restart("a.service"), reload("a.service"), ServiceAction::DaemonReload] {
        let late = ServiceError::DeadlinePassed { action: action.clone(), deadline: NEVER };
        assert_eq!(systemd.perform(&action), Err(late));
    }
}

#[test]
fn a_bus_that_dies_midway() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    for before in [vec![], vec![Reaction::Job(7)]] {
        let bus = PrivateBus::start(&[]);
        let job = [before, vec![Reaction::EndBus(bus.kill())]].concat();
        let _fake = FakeSystemd::start(&bus.address, Script { job, ..Script::default() });
        let error = SystemdServices::at(&bus.address).with_deadlines(PATIENT).perform(&restart("a.service"));
        assert!(matches!(error, Err(ServiceError::Unreachable { .. })), "{error:?}");
    }
}

#[test]
fn a_systemd_that_leaves_midway() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    for before in [vec![], vec![Reaction::Job(7)]] {
        let error = outcome(&restart("a.service"), [before, vec![Reaction::Leave]].concat());
        assert!(matches!(error, Err(ServiceError::Unreachable { .. })), "{error:?}");
    }
}

#[test]
fn nobody_there() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| format!("unix:path={}", directory.path().join(name).display());
    // It takes the connection and never says a word.
    let _silent = std::os::unix::net::UnixListener::bind(directory.path().join("silent")).unwrap();
    let bus = PrivateBus::start(&[]);
    let deadlines = ServiceDeadlines { bus: NEVER, ..PATIENT };
    for (address, deadlines) in [
        (at("absent"), PATIENT),
        (at("silent"), deadlines),
        ("nonsense".into(), PATIENT),
        (bus.address.clone(), PATIENT),
    ] {
        let error =
            SystemdServices::at(&address).with_deadlines(deadlines).perform(&ServiceAction::DaemonReload);
        assert!(matches!(error, Err(ServiceError::Unreachable { .. })), "{address}: {error:?}");
    }
}
