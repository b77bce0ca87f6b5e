//! Port for rebooting the host: request, pending shutdown, inhibitor locks.

use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

pub use crate::host::systemd::reboot_error::{RebootBackend, RebootError};

/// Service that can reboot the host: logind, or a fake in tests.
///
/// The methods block their thread. An implementation has a deadline for each reply.
pub trait RebootControl: fmt::Debug {
    /// Return the shutdown that is in progress or scheduled.
    fn pending_shutdown(&self) -> Result<Option<PendingShutdown>, RebootError>;

    /// List the inhibitor locks on shutdown, of every mode.
    fn inhibitors(&self) -> Result<Vec<InhibitorLock>, RebootError>;

    /// Wait until no inhibitor lock blocks the reboot, then request it. `report` receives the blocking locks
    /// each time they change.
    ///
    /// If a reboot is in progress or scheduled already, none is requested. Only the state visible from
    /// outside counts: a caller that must never request two reboots in a boot keeps its own record.
    fn reboot(
        &self,
        request: &RebootRequest,
        report: &mut dyn FnMut(&[InhibitorLock]),
    ) -> Result<RebootOutcome, RebootError>;
}

/// Parameters of a reboot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebootRequest {
    /// Reason in one line, sent to all logged-in users.
    pub reason: String,
    /// Time to wait for blocking inhibitor locks.
    pub inhibitor_timeout: Duration,
    /// Behavior at the end of that time.
    pub inhibitors: InhibitorPolicy,
}

/// Treatment of inhibitor locks that still block the reboot after the wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InhibitorPolicy {
    /// Fail without a reboot.
    Obey,
    /// Reboot in spite of the locks.
    OverruleAfterDeadline,
}

/// Result of a reboot request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RebootOutcome {
    /// The reboot was requested and accepted.
    Requested {
        /// Inhibitor locks that were overruled.
        over: Vec<InhibitorLock>,
    },
    /// A reboot was in progress or scheduled already, so none was requested.
    AlreadyPending(PendingShutdown),
}

/// Inhibitor lock on shutdown, as logind lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InhibitorLock {
    /// Name given by the holder.
    pub who: String,
    /// Reason given by the holder.
    pub why: String,
    /// `block`, `block-weak` or `delay`.
    pub mode: String,
    pub uid: u32,
    /// Process that took the lock. It may have passed the lock on.
    pub pid: u32,
}

impl InhibitorLock {
    /// Return true if the lock stops a reboot requested by root. A `delay` lock does not, as logind limits it
    /// in time; a `block-weak` lock does not apply to root.
    #[must_use]
    pub fn blocks(&self) -> bool {
        self.mode == "block"
    }
}

impl fmt::Display for InhibitorLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { who, why, mode, uid, pid } = self;
        write!(f, "{who} ({why}; mode {mode}, process {pid} of user {uid})")
    }
}

/// Shutdown in progress or scheduled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingShutdown {
    pub kind: ShutdownKind,
    /// Scheduled time; `None` if the shutdown is in progress.
    pub at: Option<SystemTime>,
}

/// Type of a shutdown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShutdownKind {
    /// Reboot through firmware and boot loader.
    Reboot,
    /// Not reported by systemd before 255.
    Unknown,
    /// Any type that boots no other boot entry, by logind's name: `poweroff`, `kexec` and so on.
    Other(String),
}

impl PendingShutdown {
    /// Return true if the shutdown boots the default boot entry, as far as its type is known.
    #[must_use]
    pub fn reboots(&self) -> bool {
        !matches!(self.kind, ShutdownKind::Other(_))
    }
}

impl fmt::Display for PendingShutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.at.is_some() { "scheduled" } else { "under way" };
        match &self.kind {
            ShutdownKind::Reboot => write!(f, "a reboot is {state}"),
            ShutdownKind::Unknown => write!(f, "a shutdown is {state}"),
            ShutdownKind::Other(word) => write!(f, "a shutdown of another kind ({word}) is {state}"),
        }
    }
}

/// Fake for tests: returns preset replies and records the requests.
#[derive(Debug, Default)]
pub struct FakeReboot {
    pub pending: Option<PendingShutdown>,
    /// Locks, which are never released.
    pub inhibitors: Vec<InhibitorLock>,
    /// Error to return where a reboot would be requested; success without it.
    pub failure: Option<RebootError>,
    asked: Mutex<Vec<RebootRequest>>,
}

impl FakeReboot {
    /// Return all requests, including those that failed.
    #[must_use]
    pub fn requests(&self) -> Vec<RebootRequest> {
        self.asked.lock().expect("no thread panics while holding the lock").clone()
    }
}

impl RebootControl for FakeReboot {
    fn pending_shutdown(&self) -> Result<Option<PendingShutdown>, RebootError> {
        Ok(self.pending.clone())
    }

    fn inhibitors(&self) -> Result<Vec<InhibitorLock>, RebootError> {
        Ok(self.inhibitors.clone())
    }

    fn reboot(
        &self,
        request: &RebootRequest,
        report: &mut dyn FnMut(&[InhibitorLock]),
    ) -> Result<RebootOutcome, RebootError> {
        self.asked.lock().expect("no thread panics while holding the lock").push(request.clone());
        if let Some(shutdown) = self.pending.clone() {
            let joined = shutdown.reboots();
            return if joined {
                Ok(RebootOutcome::AlreadyPending(shutdown))
            } else {
                Err(RebootError::OtherShutdown { shutdown })
            };
        }
        let over: Vec<_> = self.inhibitors.iter().filter(|lock| lock.blocks()).cloned().collect();
        if !over.is_empty() {
            report(&over);
            if request.inhibitors == InhibitorPolicy::Obey {
                return Err(RebootError::Inhibited { by: over, waited: request.inhibitor_timeout });
            }
        }
        self.failure.clone().map_or(Ok(RebootOutcome::Requested { over }), Err)
    }
}
