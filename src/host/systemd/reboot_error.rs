//! Errors of a reboot request.

use std::fmt;
use std::time::Duration;

use crate::host::systemd::reboot_port::{InhibitorLock, PendingShutdown};
use crate::host::systemd::service_port::ReportedError;

/// Service asked to reboot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RebootBackend {
    /// logind, over the system bus.
    Logind,
    /// systemd (PID 1), over its private socket.
    Pid1,
}

impl fmt::Display for RebootBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Logind => "logind",
            Self::Pid1 => "systemd",
        })
    }
}

/// Error of a reboot request. Only [`RebootError::Uncertain`] leaves open if the host reboots.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RebootError {
    /// Inhibitor locks still block the reboot after the wait.
    #[error(
        "rebooting: after {} seconds still blocked by the inhibitor lock of {}; end that program, or \
         reboot with `systemctl reboot --ignore-inhibitors`",
        waited.as_secs_f64(),
        list(by)
    )]
    Inhibited { by: Vec<InhibitorLock>, waited: Duration },
    /// A pending shutdown powers off or halts the host instead of rebooting it.
    #[error(
        "rebooting: {shutdown}; let it happen, or cancel a scheduled one with `shutdown -c`, and try again"
    )]
    OtherShutdown { shutdown: PendingShutdown },
    /// The caller may not reboot the host.
    #[error(
        "rebooting: {backend} denies it; run flameholder as root, or check the polkit rules if it is root already"
    )]
    AccessDenied {
        backend: RebootBackend,
        /// Error text of the service or the bus.
        #[source]
        source: ReportedError,
    },
    /// The service cannot be reached, or the connection was lost before the reboot was requested.
    #[error("rebooting: {backend} cannot be reached; {}", hint(*backend))]
    Unreachable {
        backend: RebootBackend,
        #[source]
        source: ReportedError,
    },
    /// A call before the reboot request was not answered.
    #[error("rebooting: {backend} gave no answer within {} seconds; {}", deadline.as_secs_f64(), hint(*backend))]
    TimedOut { backend: RebootBackend, deadline: Duration },
    /// The reboot was requested, but the reply was lost: the host may reboot or not.
    #[error(
        "rebooting: {backend} did not answer the request; see in `systemctl list-jobs` if the host reboots"
    )]
    Uncertain {
        backend: RebootBackend,
        /// Cause of the lost reply.
        #[source]
        source: ReportedError,
    },
    /// The reboot was accepted, and the host still runs: another program cancelled its job, or a unit does
    /// not stop.
    #[error(
        "rebooting: {backend} accepted the reboot, and the host still runs after {} minutes; see `systemctl list-jobs`",
        after.as_secs() / 60
    )]
    NotPerformed { backend: RebootBackend, after: Duration },
    /// Any other error reply.
    #[error("rebooting: {backend} refused ({name})")]
    Refused {
        backend: RebootBackend,
        /// D-Bus name of the error.
        name: String,
        #[source]
        source: ReportedError,
    },
}

impl RebootError {
    /// Return true if the host may reboot in spite of the error: then no other reboot may be requested in
    /// this boot.
    #[must_use]
    pub fn is_uncertain(&self) -> bool {
        matches!(self, Self::Uncertain { .. })
    }
}

fn list(inhibitors: &[InhibitorLock]) -> String {
    inhibitors.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn hint(backend: RebootBackend) -> &'static str {
    match backend {
        RebootBackend::Logind => "see `systemctl status systemd-logind` and `systemctl status dbus`",
        RebootBackend::Pid1 => "check that this host runs systemd",
    }
}

/// Convert an error reply by the error names of the D-Bus specification.
pub(crate) fn refused(backend: RebootBackend, name: &str, text: String) -> RebootError {
    let source = ReportedError(text);
    match name.strip_prefix("org.freedesktop.DBus.Error.").unwrap_or_default() {
        "AccessDenied" | "AuthFailed" | "InteractiveAuthorizationRequired" => {
            RebootError::AccessDenied { backend, source }
        }
        // The service is not on the bus, or left it during the call.
        "NameHasNoOwner" | "ServiceUnknown" | "NoReply" | "Disconnected" => {
            RebootError::Unreachable { backend, source }
        }
        _ => RebootError::Refused { backend, name: name.to_owned(), source },
    }
}
