//! One attempt of the daemon to reboot the host.

use std::time::Duration;

use crate::core::daemon::lifecycle::DaemonEvent;
use crate::host::systemd::logind::LogindReboot;
use crate::host::systemd::reboot_port::{
    InhibitorLock, InhibitorPolicy, RebootControl as _, RebootError, RebootRequest,
};
use crate::transaction::TransactionError;

/// Wait for inhibitor locks per attempt; short, since the desired config may change meanwhile.
const INHIBITOR_TIMEOUT: Duration = Duration::from_secs(30);

/// Ask logind for a reboot, and overrule inhibitor locks if the time to do so comes within this attempt.
pub(in crate::daemon) fn reboot(
    reason: String,
    time_to_overrule: Option<Duration>,
) -> Result<DaemonEvent, TransactionError> {
    let attempt = time_to_overrule.filter(|left| *left <= INHIBITOR_TIMEOUT);
    let (inhibitors, inhibitor_timeout) = match attempt {
        Some(left) => (InhibitorPolicy::OverruleAfterDeadline, left),
        None => (InhibitorPolicy::Obey, INHIBITOR_TIMEOUT),
    };
    let request = RebootRequest { reason, inhibitor_timeout, inhibitors };
    match LogindReboot::system().reboot(&request, &mut |_| {}) {
        Ok(_) => Ok(DaemonEvent::RebootAccepted),
        Err(RebootError::Inhibited { by, .. }) => {
            let by: Vec<String> = by.iter().map(InhibitorLock::to_string).collect();
            Ok(DaemonEvent::Inhibited { by: by.join(", ") })
        }
        Err(error) => Err(error.into()),
    }
}
