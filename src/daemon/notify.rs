//! Notifications: readiness, watchdog and status line for systemd, status file for `flameholder status`.

use std::path::Path;
use std::time::Duration;

use log::Level;
use sd_notify::NotifyState;

use crate::core::daemon::daemon_report::DaemonReport;
use crate::core::values::causes::chain;
use crate::host::Root;
use crate::transaction::state::status_files;

/// Notify systemd, if it started this process.
fn say(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        log::debug!("systemd cannot be notified: {error}", error = chain(&error));
    }
}

/// Report that startup is complete (`READY=1`).
pub(super) fn ready() {
    say(&[NotifyState::Ready]);
}

/// Reset the watchdog timer.
pub(super) fn watchdog_ping() {
    say(&[NotifyState::Watchdog]);
}

/// Report that the daemon stops, and ask for this much time.
pub(super) fn stopping(within: Duration) {
    let within = u32::try_from(within.as_micros()).unwrap_or(u32::MAX);
    say(&[NotifyState::Stopping, NotifyState::ExtendTimeoutUsec(within)]);
}

/// Return the period of watchdog notifications; `None` without a watchdog.
pub(super) fn watchdog_interval() -> Option<Duration> {
    // Half the limit, so that one late notification does not kill the daemon.
    sd_notify::watchdog_enabled().map(|interval| interval / 2)
}

/// Publish the phase in systemd's status line and in the status file.
pub(super) fn publish_status(report: &DaemonReport) {
    say(&[NotifyState::Status(&report.summary_since())]);
    match Root::open(Path::new("/")) {
        Ok(root) => status_files::DAEMON.publish(&root, report),
        Err(error) => log::warn!("cannot write the daemon's status file: {error}", error = chain(&error)),
    }
}

/// Return the priority of the journal entry about a report: an error where the host does not become as desired, or a reboot
/// failed; a warning where it does not yet.
pub(super) fn journal_level(report: &DaemonReport, before: Option<&DaemonReport>) -> Level {
    let was_rebooting =
        before.is_some_and(|before| ["Rebooting", "ShuttingDown"].contains(&before.phase.as_str()));
    match report.phase.as_str() {
        "Blocked" | "RollingBack" => Level::Error,
        "BackingOff" if was_rebooting => Level::Error,
        "Drifted" | "BackingOff" => Level::Warn,
        _ => Level::Info,
    }
}
