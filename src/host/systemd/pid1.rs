//! A reboot while there is no message bus yet, asked of systemd itself.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::host::systemd::private_socket::{PeerError, PrivateSocket, SocketReply};
use crate::host::systemd::reboot_error::{RebootBackend, RebootError, refused};
use crate::host::systemd::reboot_port::{PendingShutdown, RebootOutcome, ShutdownKind};
use crate::host::systemd::service_port::ReportedError;

/// Below the root of a running host. Only root may connect to it.
pub(crate) const SOCKET: &str = "run/systemd/private";
pub(crate) const MANAGER: &str = "org.freedesktop.systemd1.Manager";
pub(crate) const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
/// It does nothing but answer, yet it may be starting a lot at the time.
const ANSWER: Duration = Duration::from_secs(25);

/// systemd, by the socket that it listens on from its first moment.
///
/// Nobody's locks are looked at: there is no logind yet that would keep them.
#[derive(Debug, Clone)]
pub struct Pid1Reboot {
    socket: PathBuf,
    answer: Duration,
}

impl Pid1Reboot {
    /// The one whose files are below `root`, which is `/` on a host.
    #[must_use]
    pub fn of(root: &Path) -> Self {
        Self::at(&root.join(SOCKET))
    }

    /// The one that listens on `socket`.
    #[must_use]
    pub fn at(socket: &Path) -> Self {
        Self { socket: socket.to_owned(), answer: ANSWER }
    }

    /// The same with another deadline for each answer.
    #[must_use]
    pub fn with_answers_within(self, answer: Duration) -> Self {
        Self { answer, ..self }
    }

    /// Asks for the reboot, unless a shutdown is under way. It blocks its thread.
    pub fn reboot(&self) -> Result<RebootOutcome, RebootError> {
        let mut systemd =
            PrivateSocket::connect(&self.socket, self.answer).map_err(|error| self.before(error))?;
        let state = systemd.call(PROPERTIES, "Get", &(MANAGER, "SystemState"));
        let state = state.and_then(SocketReply::variant).map_err(|error| self.before(error))?;
        if state == "stopping" {
            return Ok(RebootOutcome::AlreadyPending(PendingShutdown {
                kind: ShutdownKind::Unknown,
                at: None,
            }));
        }
        // As `systemctl reboot` does it: whatever else is queued gives way, and nothing replaces it.
        let asked = systemd.call(MANAGER, "StartUnit", &("reboot.target", "replace-irreversibly"));
        match asked {
            Ok(_) => Ok(RebootOutcome::Requested { over: Vec::new() }),
            Err(error @ PeerError::Answered { .. }) => Err(self.before(error)),
            Err(lost) => Err(RebootError::Uncertain {
                whom: RebootBackend::Pid1,
                source: ReportedError(lost.to_string()),
            }),
        }
    }

    /// What an error means as long as the reboot is not asked for.
    fn before(&self, error: PeerError) -> RebootError {
        let whom = RebootBackend::Pid1;
        match error {
            PeerError::Answered { name, text } => refused(whom, &name, text),
            PeerError::TimedOut => RebootError::TimedOut { whom, deadline: self.answer },
            PeerError::Socket(error) if error.kind() == ErrorKind::PermissionDenied => {
                RebootError::AccessDenied { whom, source: ReportedError(error.to_string()) }
            }
            error => {
                let text = format!("{}: {error}", self.socket.display());
                RebootError::Unreachable { whom, source: ReportedError(text) }
            }
        }
    }
}
