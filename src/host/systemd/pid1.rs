//! Reboot through systemd's private socket, for early boot, when no message bus runs yet.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::host::systemd::private_socket::{ANSWER, PeerError, PrivateSocket, SocketReply};
use crate::host::systemd::reboot_error::{RebootBackend, RebootError, refused};
use crate::host::systemd::reboot_port::{PendingShutdown, RebootOutcome, ShutdownKind};
use crate::host::systemd::service_port::ReportedError;

/// Path below the root of a running host. Only root may connect.
pub(crate) const SOCKET: &str = "run/systemd/private";
pub(crate) const MANAGER: &str = "org.freedesktop.systemd1.Manager";
pub(crate) const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

/// systemd, reached through its private socket, which exists from its start.
///
/// Inhibitor locks are not checked: logind, which manages them, does not run yet.
#[derive(Debug, Clone)]
pub struct Pid1Reboot {
    socket: PathBuf,
    answer: Duration,
}

impl Pid1Reboot {
    /// Use the systemd whose runtime files are below `root`, which is `/` on a host.
    #[must_use]
    pub fn of(root: &Path) -> Self {
        Self::at(&root.join(SOCKET))
    }

    #[must_use]
    pub fn at(socket: &Path) -> Self {
        Self { socket: socket.to_owned(), answer: ANSWER }
    }

    /// Set the deadline for each reply.
    #[must_use]
    pub fn with_answers_within(self, answer: Duration) -> Self {
        Self { answer, ..self }
    }

    /// Request a reboot, unless a shutdown is in progress. Blocks its thread.
    pub fn reboot(&self) -> Result<RebootOutcome, RebootError> {
        let mut systemd =
            PrivateSocket::connect(&self.socket, self.answer).map_err(|error| self.before(error))?;
        let state = systemd.call(PROPERTIES, "Get", &(MANAGER, "SystemState"));
        let state = state.and_then(SocketReply::variant::<String>).map_err(|error| self.before(error))?;
        if state == "stopping" {
            return Ok(RebootOutcome::AlreadyPending(PendingShutdown {
                kind: ShutdownKind::Unknown,
                at: None,
            }));
        }
        // Same job mode as `systemctl reboot`: replaces queued jobs and cannot be replaced.
        let asked = systemd.call(MANAGER, "StartUnit", &("reboot.target", "replace-irreversibly"));
        match asked {
            Ok(_) => Ok(RebootOutcome::Requested { over: Vec::new() }),
            Err(error @ PeerError::Answered { .. }) => Err(self.before(error)),
            Err(lost) => Err(RebootError::Uncertain {
                backend: RebootBackend::Pid1,
                source: ReportedError(lost.to_string()),
            }),
        }
    }

    /// Convert an error that occurred before the reboot was requested.
    fn before(&self, error: PeerError) -> RebootError {
        let backend = RebootBackend::Pid1;
        match error {
            PeerError::Answered { name, text } => refused(backend, &name, text),
            PeerError::TimedOut => RebootError::TimedOut { backend, deadline: self.answer },
            PeerError::Socket(error) if error.kind() == ErrorKind::PermissionDenied => {
                RebootError::AccessDenied { backend, source: ReportedError(error.to_string()) }
            }
            error => {
                let text = format!("{}: {error}", self.socket.display());
                RebootError::Unreachable { backend, source: ReportedError(text) }
            }
        }
    }
}
