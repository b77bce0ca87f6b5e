//! Results of unit jobs, errors and deadlines, with a scripted systemd.

use std::collections::BTreeMap;
use std::time::Duration;

use flameholder::core::state::service_action::ServiceAction;
use flameholder::host::systemd::service_port::{JobResult, ReportedError, ServiceControl as _, ServiceError};
use flameholder::host::systemd::unit_jobs::{ServiceDeadlines, SystemdServices};
use testbed::dbus::fake_systemd::{FakeSystemd, Reaction, Script};
use testbed::dbus::private_bus::PrivateBus;

use crate::jobs::{reload, restart};

const UNIT: &str = "org.freedesktop.systemd1.Unit";
const SERVICE: &str = "org.freedesktop.systemd1.Service";

/// Deadline where the answer never comes: shorter than a test may take, longer than any answer that does
/// come.
const SHORT: Duration = Duration::from_millis(300);

/// Deadlines where the answer comes: a test that hangs fails.
const DEADLINES: ServiceDeadlines = ServiceDeadlines {
    bus: Duration::from_secs(20),
    daemon_reload: Duration::from_secs(20),
    reload: Duration::from_secs(20),
    restart: Duration::from_secs(20),
};

/// Perform `action` against a systemd that follows `script`. Return the outcome and the calls of systemd.
fn perform(action: &ServiceAction, script: Script) -> (Result<(), ServiceError>, Vec<String>) {
    let bus = PrivateBus::start(&[]);
    let fake = FakeSystemd::start(&bus.address, script);
    let outcome = SystemdServices::at(&bus.address).with_deadlines(DEADLINES).perform(action);
    (outcome, fake.calls())
}

/// Perform `action` with these reactions to the job. Return the outcome.
fn perform_job(action: &ServiceAction, job: Vec<Reaction>) -> Result<(), ServiceError> {
    perform(action, Script { job, ..Script::default() }).0
}

/// Script with these reactions to the job, and with unit properties as (interface, name, value).
fn script_with_properties(
    job: Vec<Reaction>,
    properties: &[(&'static str, &'static str, &'static str)],
) -> Script {
    let properties = properties.iter().map(|(interface, name, value)| ((*interface, *name), *value));
    Script { job, properties: properties.collect::<BTreeMap<_, _>>(), ..Script::default() }
}

/// Reactions of a job that ends with this result.
fn job_with_result(result: &'static str) -> Vec<Reaction> {
    vec![Reaction::Job(7), Reaction::Removed(7, result)]
}

#[test]
fn successful_job_is_a_success() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let script = |job| Script { job, ..Script::default() };
    let (outcome, calls) = perform(&restart("a.service"), script(job_with_result("done")));
    assert_eq!(outcome, Ok(()));
    assert_eq!(calls, ["Subscribe", "RestartUnit a.service replace"]);
    let (outcome, calls) = perform(&reload("a.service"), script(job_with_result("done")));
    assert_eq!(outcome, Ok(()));
    assert_eq!(calls, ["Subscribe", "ReloadUnit a.service replace"]);
    let (outcome, calls) = perform(&ServiceAction::DaemonReload, Script::default());
    assert_eq!(outcome, Ok(()));
    assert_eq!(calls, ["Reload"]);
}

#[test]
fn job_that_ends_before_its_id_is_known_is_a_success() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let early = vec![Reaction::Removed(7, "done"), Reaction::Job(7)];
    assert_eq!(perform_job(&restart("a.service"), early), Ok(()));
}

#[test]
fn signals_about_other_jobs_and_from_other_peers_are_ignored() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let others = (100..300).map(|job| Reaction::Removed(job, "failed"));
    let mut reactions: Vec<Reaction> = others.clone().collect();
    reactions.extend([Reaction::Forged(7, "canceled"), Reaction::Job(7)]);
    reactions.extend(others);
    reactions.extend([
        Reaction::Forged(7, "canceled"),
        Reaction::Removed(70, "failed"),
        Reaction::Removed(7, "done"),
    ]);
    assert_eq!(perform_job(&restart("a.service"), reactions), Ok(()));
}

#[test]
fn failed_job_reports_the_result_of_the_unit() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let script = script_with_properties(job_with_result("failed"), &[(SERVICE, "Result", "exit-code")]);
    let action = restart("a.service");
    let error = perform(&action, script).0.unwrap_err();
    assert_eq!(error, ServiceError::Failed { action, result: Some("exit-code".into()) });
    assert_eq!(
        error.to_string(),
        "restarting a.service: unit failed (exit-code); see `journalctl -u a.service`"
    );
    // After a failed reload the unit is still active, and its result is that of the reload.
    let properties = [(SERVICE, "Result", "success"), (SERVICE, "ReloadResult", "timeout")];
    let action = reload("a.service");
    let failed = ServiceError::Failed { action: action.clone(), result: Some("timeout".into()) };
    assert_eq!(
        perform(&action, script_with_properties(job_with_result("failed"), &properties)).0,
        Err(failed)
    );
}

#[test]
fn service_that_dies_after_its_start_has_failed() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let action = restart("a.service");
    let failed = || Err(ServiceError::Failed { action: action.clone(), result: Some("signal".into()) });
    for (name, value) in [("ActiveState", "failed"), ("SubState", "auto-restart")] {
        let script = script_with_properties(
            job_with_result("done"),
            &[(UNIT, name, value), (SERVICE, "Result", "signal")],
        );
        assert_eq!(perform(&action, script).0, failed(), "{value}");
    }
}

#[test]
fn other_job_results_are_reported() {
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
        assert_eq!(perform_job(&action, job_with_result(result)), expected, "{result}");
    }
}

#[test]
fn reload_of_an_inactive_unit_is_a_success_and_of_a_failed_one_is_not() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let action = reload("a.service");
    let script = |active| {
        script_with_properties(
            job_with_result("invalid"),
            &[(UNIT, "ActiveState", active), (SERVICE, "Result", "x")],
        )
    };
    assert_eq!(perform(&action, script("inactive")).0, Ok(()));
    let failed = ServiceError::Failed { action: action.clone(), result: Some("x".into()) };
    assert_eq!(perform(&action, script("failed")).0, Err(failed));
    let end = JobResult::Other("invalid".into());
    let rejected = ServiceError::JobEnded { action: action.clone(), end };
    assert_eq!(perform(&action, script("active")).0, Err(rejected));
}

#[test]
fn errors_of_systemd_are_mapped() {
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
        assert_eq!(perform_job(&action, vec![Reaction::Refuse(error, "says so")]), Err(expected), "{error}");
    }
}

#[test]
fn calls_that_the_bus_policy_denies_are_access_denied() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let bus = PrivateBus::start(&["RestartUnit", "Reload"]);
    let fake = FakeSystemd::start(&bus.address, Script::default());
    let systemd = SystemdServices::at(&bus.address).with_deadlines(DEADLINES);
    for action in [restart("a.service"), ServiceAction::DaemonReload] {
        let error = systemd.perform(&action).unwrap_err();
        assert!(matches!(error, ServiceError::AccessDenied { .. }), "{error:?}");
    }
    assert_eq!(fake.calls(), ["Subscribe"]);
}

#[test]
fn job_without_an_end_passes_its_deadline() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let bus = PrivateBus::start(&[]);
    let script = Script { job: vec![Reaction::Job(7)], ignores_reload: true, ..Script::default() };
    let _fake = FakeSystemd::start(&bus.address, script);
    let deadlines = ServiceDeadlines { daemon_reload: SHORT, reload: SHORT, restart: SHORT, ..DEADLINES };
    let systemd = SystemdServices::at(&bus.address).with_deadlines(deadlines);
    for action in [restart("a.service"), reload("a.service"), ServiceAction::DaemonReload] {
        let late = ServiceError::DeadlinePassed { action: action.clone(), deadline: SHORT };
        assert_eq!(systemd.perform(&action), Err(late));
    }
}

#[test]
fn systemd_is_unreachable_when_the_bus_ends_during_a_job() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    for before in [vec![], vec![Reaction::Job(7)]] {
        let bus = PrivateBus::start(&[]);
        let job = [before, vec![Reaction::EndBus(bus.kill())]].concat();
        let _fake = FakeSystemd::start(&bus.address, Script { job, ..Script::default() });
        let error =
            SystemdServices::at(&bus.address).with_deadlines(DEADLINES).perform(&restart("a.service"));
        assert!(matches!(error, Err(ServiceError::Unreachable { .. })), "{error:?}");
    }
}

#[test]
fn systemd_is_unreachable_when_it_leaves_the_bus_during_a_job() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    for before in [vec![], vec![Reaction::Job(7)]] {
        let error = perform_job(&restart("a.service"), [before, vec![Reaction::Leave]].concat());
        assert!(matches!(error, Err(ServiceError::Unreachable { .. })), "{error:?}");
    }
}

#[test]
fn systemd_is_unreachable_without_a_bus_or_a_service_on_it() {
    testbed::preconditions::require_installed(&["dbus-daemon"]);
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| format!("unix:path={}", directory.path().join(name).display());
    // A socket that accepts connections and never answers.
    let _silent = std::os::unix::net::UnixListener::bind(directory.path().join("silent")).unwrap();
    let bus = PrivateBus::start(&[]);
    let deadlines = ServiceDeadlines { bus: SHORT, ..DEADLINES };
    for (address, deadlines) in [
        (at("absent"), DEADLINES),
        (at("silent"), deadlines),
        ("nonsense".into(), DEADLINES),
        (bus.address.clone(), DEADLINES),
    ] {
        let error =
            SystemdServices::at(&address).with_deadlines(deadlines).perform(&ServiceAction::DaemonReload);
        assert!(matches!(error, Err(ServiceError::Unreachable { .. })), "{address}: {error:?}");
    }
}
