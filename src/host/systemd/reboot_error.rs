//! Why a reboot was not asked for, or may not come.

use std::fmt;
use std::time::Duration;

use crate::host::systemd::reboot_port::{InhibitorLock, PendingShutdown};
use crate::host::systemd::service_port::ReportedError;

/// Who was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RebootBackend {
    /// logind, over the system bus.
    Logind,
    /// systemd itself, over its private socket.
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

/// Why a reboot was not asked for, or may not come.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RebootError {
    /// Somebody blocks it, and was not to be overruled.
    #[error(
        "rebooting: after {} seconds still blocked by {}; end that, or reboot with \
         `systemctl reboot --ignore-inhibitors`",
        waited.as_secs_f64(),
        list(by)
    )]
    Inhibited {
        /// Who.
        by: Vec<InhibitorLock>,
        /// How long they were waited for.
        waited: Duration,
    },
    /// A shutdown is to come that does not start another boot entry.
    #[error(
        "rebooting: {shutdown}; let it happen, or cancel a scheduled one with `shutdown -c`, and try again"
    )]
    OtherShutdown {
        /// Which.
        shutdown: PendingShutdown,
    },
    /// Whoever asked may not.
    #[error("rebooting: {whom} denies it; run it as root, and see polkit's rules where it is root already")]
    AccessDenied {
        /// Who was asked.
        whom: RebootBackend,
        /// What they, or the bus, said.
        #[source]
        source: ReportedError,
    },
    /// Whoever is to be asked cannot be reached, or was lost before the reboot was asked for.
    #[error("rebooting: {whom} cannot be reached; {}", look(*whom))]
    Unreachable {
        /// Who was asked.
        whom: RebootBackend,
        /// What went wrong.
        #[source]
        source: ReportedError,
    },
    /// There is no answer, to a question that came before the reboot itself.
    #[error("rebooting: {whom} gave no answer within {} seconds; {}", deadline.as_secs_f64(), look(*whom))]
    TimedOut {
        /// Who was asked.
        whom: RebootBackend,
        /// How long was waited.
        deadline: Duration,
    },
    /// The reboot was asked for, and what became of that is not known.
    #[error(
        "rebooting: {whom} was asked and did not answer; see `systemctl list-jobs` whether the host reboots"
    )]
    Uncertain {
        /// Who was asked.
        whom: RebootBackend,
        /// How the answer was lost.
        #[source]
        source: ReportedError,
    },
    /// An error that has no variant of its own.
    #[error("rebooting: {whom} refused ({name})")]
    Refused {
        /// Who was asked.
        whom: RebootBackend,
        /// The error's D-Bus name.
        name: String,
        /// The error's text.
        #[source]
        source: ReportedError,
    },
}

impl RebootError {
    /// Whether the host may reboot in spite of the error: then it is not to be asked again in this boot.
    #[must_use]
    pub fn is_uncertain(&self) -> bool {
        matches!(self, Self::Uncertain { .. })
    }
}

fn list(inhibitors: &[InhibitorLock]) -> String {
    inhibitors.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn look(whom: RebootBackend) -> &'static str {
    match whom {
        RebootBackend::Logind => "see `systemctl status systemd-logind`, and whether the system bus runs",
        RebootBackend::Pid1 => "see whether this host runs systemd",
    }
}

/// What an error that was answered means, by the names of the D-Bus specification.
pub(crate) fn refused(whom: RebootBackend, name: &str, text: String) -> RebootError {
    let source = ReportedError(text);
    match name.strip_prefix("org.freedesktop.DBus.Error.").unwrap_or_default() {
        "AccessDenied" | "AuthFailed" | "InteractiveAuthorizationRequired" => {
            RebootError::AccessDenied { whom, source }
        }
        // It is not on the bus, or left it with the call.
        "NameHasNoOwner" | "ServiceUnknown" | "NoReply" | "Disconnected" => {
            RebootError::Unreachable { whom, source }
        }
        _ => RebootError::Refused { whom, name: name.to_owned(), source },
    }
}
