//! The port through which the host is rebooted, and what can stand in the way.

use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

pub use crate::host::systemd::reboot_error::{RebootBackend, RebootError};

/// Whoever can reboot the host: logind on a host, something else in a test.
///
/// Every method blocks its thread, and ends: an implementation has a deadline for each answer.
pub trait RebootControl: fmt::Debug {
    /// The shutdown that is under way or scheduled.
    fn pending(&self) -> Result<Option<PendingShutdown>, RebootError>;

    /// The locks that somebody holds on shutting down, of every mode.
    fn inhibitors(&self) -> Result<Vec<InhibitorLock>, RebootError>;

    /// Waits until nobody blocks the reboot, and asks for it. Whenever those who block it change,
    /// `report` is told who they are.
    ///
    /// Where a reboot is under way or scheduled already, none is asked for. That holds for
    /// this boot only as far as it can be seen from outside: who must never ask twice keeps a record.
    fn reboot(
        &self,
        request: &RebootRequest,
        report: &mut dyn FnMut(&[InhibitorLock]),
    ) -> Result<RebootOutcome, RebootError>;
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebootRequest {
    /// Why, in one line: it is told to everybody who is logged in.
    pub reason: String,
    /// How long those who block it are waited for.
    pub patience: Duration,
    /// What happens then.
    pub insist: InhibitorPolicy,
}

/// Whether those who still block the reboot in the end are overruled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InhibitorPolicy {
    /// Then there is no reboot.
    Obey,
    /// Then there is one all the same.
    OverruleAfterDeadline,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RebootOutcome {
    /// The reboot was asked for and is accepted.
    Requested {
        /// Who was overruled.
        over: Vec<InhibitorLock>,
    },
    /// A reboot was to come anyway, and was not asked for again.
    AlreadyPending(PendingShutdown),
}

/// A lock that somebody holds on shutting down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InhibitorLock {
    /// Who holds it, in their own words.
    pub who: String,
    /// Why, in their own words.
    pub why: String,
    /// `block`, `block-weak` or `delay`.
    pub mode: String,
    /// The user who holds it.
    pub uid: u32,
    /// The process that took it. Another may hold it by now.
    pub pid: u32,
}

impl InhibitorLock {
    /// Whether it stops a reboot that root asks for. A delay is only that, and logind sees to its
    /// end; a weak block is not meant for root.
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

/// A shutdown that is to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingShutdown {
    /// What it ends in.
    pub kind: ShutdownKind,
    /// When it begins; none where it has begun.
    pub at: Option<SystemTime>,
}

/// What a shutdown ends in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShutdownKind {
    /// A reboot through firmware and bootloader.
    Reboot,
    /// Older systems do not tell.
    Unknown,
    /// Something that starts no other boot entry, in logind's word: `poweroff`, `kexec` and so on.
    Other(String),
}

impl PendingShutdown {
    /// Whether it starts what the bootloader puts first, as far as is known.
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

/// A host that does not reboot: it answers as it is told to, and notes what it is asked.
#[derive(Debug, Default)]
pub struct FakeReboot {
    /// What is to come already.
    pub pending: Option<PendingShutdown>,
    /// The locks, which nobody lets go.
    pub inhibitors: Vec<InhibitorLock>,
    /// What it answers to a request that nothing is in the way of; without it, it agrees.
    pub failure: Option<RebootError>,
    asked: Mutex<Vec<RebootRequest>>,
}

impl FakeReboot {
    /// The requests that came, those that were refused too.
    #[must_use]
    pub fn asked(&self) -> Vec<RebootRequest> {
        self.asked.lock().expect("nobody panics while holding it").clone()
    }
}

impl RebootControl for FakeReboot {
    fn pending(&self) -> Result<Option<PendingShutdown>, RebootError> {
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
        self.asked.lock().expect("nobody panics while holding it").push(request.clone());
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
            if request.insist == InhibitorPolicy::Obey {
                return Err(RebootError::Inhibited { by: over, waited: request.patience });
            }
        }
        self.failure.clone().map_or(Ok(RebootOutcome::Requested { over }), Err)
    }
}
