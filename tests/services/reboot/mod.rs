//! Reboots of the host: the product's logind client against a scripted fake, and its fallback over systemd's
//! private socket against a real systemd.

mod faults;
mod locks;
mod pid1;
mod plans;

use std::time::Duration;

use flameholder::host::systemd::logind::LogindReboot;
use flameholder::host::systemd::reboot_port::{
    InhibitorLock, InhibitorPolicy, RebootControl as _, RebootError, RebootOutcome, RebootRequest,
};
use testbed::dbus::fake_logind::{FakeLogind, Script};
use testbed::dbus::private_bus::PrivateBus;

/// Deadline where the answer comes: a test that hangs fails.
const DEADLINE: Duration = Duration::from_secs(20);
/// Deadline where the answer never comes: longer than any answer that does come.
const SHORT: Duration = Duration::from_millis(300);

/// Request that waits this long for inhibitor locks.
fn request(patience: Duration) -> RebootRequest {
    RebootRequest {
        reason: "flameholder: generation 7, config worker-a".into(),
        inhibitor_timeout: patience,
        inhibitors: InhibitorPolicy::Obey,
    }
}

/// Outcome of a request, with its reports and its calls of logind.
#[derive(Debug)]
struct RebootRun {
    outcome: Result<RebootOutcome, RebootError>,
    /// Blocking locks of each report.
    reports: Vec<Vec<InhibitorLock>>,
    /// Reboots and wall messages that logind was asked for.
    calls: Vec<String>,
}

/// Request a reboot from a logind that follows `script`.
fn run_reboot(script: Script, request: &RebootRequest) -> RebootRun {
    let bus = PrivateBus::start(&[]);
    let fake = FakeLogind::start(&bus, script);
    let mut reports = Vec::new();
    let logind = LogindReboot::at(&bus.address).with_answers_within(DEADLINE);
    let outcome = logind.reboot(request, &mut |by| reports.push(by.to_vec()));
    RebootRun { outcome, reports, calls: fake.calls() }
}

/// Outcome of a request that overrules no lock.
fn requested() -> RebootOutcome {
    RebootOutcome::Requested { over: Vec::new() }
}
