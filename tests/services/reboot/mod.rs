//! How the host is rebooted: the port's real implementations, against a logind that says what the
//! test wants, and against a systemd of the test's own.

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

/// Long enough for every answer that comes: a test that hangs fails.
const PATIENT: Duration = Duration::from_secs(20);
/// Long enough for what comes at once, short enough to wait for what does not.
const SOON: Duration = Duration::from_millis(300);

/// A request that gives up when its patience ends.
fn request(patience: Duration) -> RebootRequest {
    RebootRequest {
        reason: "flameholder: generation 7, config worker-a".into(),
        inhibitor_timeout: patience,
        inhibitors: InhibitorPolicy::Obey,
    }
}

/// What came of a request.
#[derive(Debug)]
struct Played {
    outcome: Result<RebootOutcome, RebootError>,
    /// Who was reported to block it, one entry for each report.
    reports: Vec<Vec<InhibitorLock>>,
    /// The reboots and announcements that logind was asked for.
    calls: Vec<String>,
}

fn played(script: Script, request: &RebootRequest) -> Played {
    let bus = PrivateBus::start(&[]);
    let fake = FakeLogind::start(&bus, script);
    let mut reports = Vec::new();
    let logind = LogindReboot::at(&bus.address).with_answers_within(PATIENT);
    let outcome = logind.reboot(request, &mut |by| reports.push(by.to_vec()));
    Played { outcome, reports, calls: fake.calls() }
}

/// A reboot that overrules nobody.
fn asked() -> RebootOutcome {
    RebootOutcome::Requested { over: Vec::new() }
}
