//! What systemd, the journal and `status` are told.

use std::path::Path;
use std::time::Duration;

use sd_notify::NotifyState;

use crate::core::daemon::daemon_report::DaemonReport;
use crate::host::Root;
use crate::transaction::state::status_files;

/// Says something to systemd, where that started us.
fn say(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        log::debug!("systemd cannot be notified: {error}");
    }
}

/// The daemon listens.
pub(super) fn ready() {
    say(&[NotifyState::Ready]);
}

/// The daemon is alive.
pub(super) fn alive() {
    say(&[NotifyState::Watchdog]);
}

/// The daemon ends, within this time.
pub(super) fn stopping(within: Duration) {
    let within = u32::try_from(within.as_micros()).unwrap_or(u32::MAX);
    say(&[NotifyState::Stopping, NotifyState::ExtendTimeoutUsec(within)]);
}

/// How often systemd wants to hear that the daemon is alive; `None` where it does not.
pub(super) fn pulse() -> Option<Duration> {
    // Twice as often: one that comes late is no reason to be killed.
    sd_notify::watchdog_enabled().map(|interval| interval / 2)
}

/// Where the daemon stands.
pub(super) fn standing(report: &DaemonReport) {
    say(&[NotifyState::Status(&report.sentence())]);
    match Root::open(Path::new("/")) {
        Ok(root) => status_files::DAEMON.publish(&root, report),
        Err(error) => log::warn!("where the daemon stands cannot be published: {error}"),
    }
}
