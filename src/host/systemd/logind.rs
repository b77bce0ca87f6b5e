//! Reboot through logind, over the system bus.

use std::time::Duration;

use crate::host::systemd::login_bus::{LoginBus, LogindError};
use crate::host::systemd::reboot_error::{RebootBackend, RebootError};
use crate::host::systemd::reboot_port::{
    InhibitorLock, InhibitorPolicy, PendingShutdown, RebootControl, RebootOutcome, RebootRequest,
    ShutdownKind,
};
use crate::host::systemd::service_port::ReportedError;
use crate::host::systemd::system_bus::BusError;

/// Deadline for each reply: the default timeout of D-Bus libraries.
const ANSWER: Duration = Duration::from_secs(25);

/// Flag of `RebootWithFlags`: inhibitor locks apply to root too. Since systemd 257 strong locks do so without
/// it.
const ROOT_CHECK_INHIBITORS: u64 = 1 << 0;
/// Flag of `RebootWithFlags`: ignore inhibitor locks. Exists since systemd 257.
const SKIP_INHIBITORS: u64 = 1 << 4;
const NO_FLAGS: u64 = 0;

/// logind, reached through a message bus.
///
/// # Flow
/// First a pending shutdown is looked for, then inhibitor locks. logind signals each change of its locks
/// (`BlockInhibited`), so waiting for them needs no polling. The reboot request makes logind check its locks
/// once more, so a lock taken in between is respected.
///
/// # Limits
/// The methods block their thread and drive a tokio runtime on it: asynchronous code must call them with
/// `spawn_blocking`.
#[derive(Debug, Clone)]
pub struct LogindReboot {
    address: Option<String>,
    answer: Duration,
}

impl LogindReboot {
    /// Use the system bus: `DBUS_SYSTEM_BUS_ADDRESS` or the default socket.
    #[must_use]
    pub fn system() -> Self {
        Self { address: None, answer: ANSWER }
    }

    /// Use the bus at `address`, in the notation of the D-Bus specification.
    #[must_use]
    pub fn at(address: &str) -> Self {
        Self { address: Some(address.to_owned()), answer: ANSWER }
    }

    /// Set the deadline for each reply.
    #[must_use]
    pub fn with_answers_within(self, answer: Duration) -> Self {
        Self { answer, ..self }
    }

    fn ask<T>(
        &self,
        question: impl AsyncFnOnce(&mut LoginBus) -> Result<T, RebootError>,
    ) -> Result<T, RebootError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| unreachable_because(error.to_string()))?;
        runtime.block_on(async {
            let bus = LoginBus::connect(self.address.as_deref(), self.answer).await;
            question(&mut bus.map_err(|fault| self.before(fault))?).await
        })
    }

    /// Convert an error that occurred before the reboot was requested.
    fn before(&self, fault: LogindError) -> RebootError {
        match fault {
            LogindError::TimedOut => {
                RebootError::TimedOut { backend: RebootBackend::Logind, deadline: self.answer }
            }
            LogindError::Bus(error) => explained(error),
        }
    }

    /// Convert an error that occurred after the reboot was requested.
    fn after(&self, fault: LogindError) -> RebootError {
        let how = match fault {
            LogindError::TimedOut => format!("no answer within {} seconds", self.answer.as_secs_f64()),
            LogindError::Bus(BusError::ConnectionClosed) => "the bus closed the connection".to_owned(),
            LogindError::Bus(BusError::NameLost) => "logind left the bus".to_owned(),
            LogindError::Bus(error) => match explained(error) {
                RebootError::Unreachable { source, .. } => source.0,
                answered => return answered,
            },
        };
        RebootError::Uncertain { backend: RebootBackend::Logind, source: ReportedError(how) }
    }

    async fn blockers(&self, bus: &mut LoginBus) -> Result<Vec<InhibitorLock>, RebootError> {
        let locks = bus.inhibitors().await.map_err(|fault| self.before(fault))?;
        Ok(locks.into_iter().filter(InhibitorLock::blocks).collect())
    }

    async fn wait_and_ask(
        &self,
        bus: &mut LoginBus,
        request: &RebootRequest,
        report: &mut dyn FnMut(&[InhibitorLock]),
    ) -> Result<RebootOutcome, RebootError> {
        let end = tokio::time::Instant::now() + request.inhibitor_timeout;
        let mut told = Vec::new();
        loop {
            bus.forget_changes();
            if let Some(shutdown) = bus.pending_shutdown().await.map_err(|fault| self.before(fault))? {
                return joined(shutdown);
            }
            let mut blockers = self.blockers(bus).await?;
            if blockers.is_empty() {
                match self.ask_politely(bus, &request.reason).await? {
                    Ok(outcome) => return Ok(outcome),
                    Err(late) => blockers = late,
                }
            }
            if blockers != told {
                report(&blockers);
                told.clone_from(&blockers);
            }
            match tokio::time::timeout_at(end, bus.changed()).await {
                Ok(news) => news.map_err(|fault| self.before(fault))?,
                Err(_) if request.inhibitors == InhibitorPolicy::OverruleAfterDeadline => {
                    return self.overrule(bus, &request.reason, blockers).await;
                }
                Err(_) => {
                    return Err(RebootError::Inhibited { by: blockers, waited: request.inhibitor_timeout });
                }
            }
        }
    }

    /// Request the reboot so that inhibitor locks apply. Returns the locks taken in the meantime if they
    /// block it.
    async fn ask_politely(
        &self,
        bus: &mut LoginBus,
        reason: &str,
    ) -> Result<Result<RebootOutcome, Vec<InhibitorLock>>, RebootError> {
        let refusal = match self.ask_with(bus, ROOT_CHECK_INHIBITORS, reason).await? {
            Answer::Outcome(outcome) => return Ok(Ok(outcome)),
            Answer::Blocked(refusal) => refusal,
        };
        let late = self.blockers(bus).await?;
        if !late.is_empty() {
            return Ok(Err(late));
        }
        // Either the lock was released meanwhile, or it is a weak one (`block-weak`), to which the flag
        // subjects root. A logind that returns `BlockedByInhibitorLock` knows weak locks and applies strong
        // locks without the flag.
        let knows_weak = refusal.name() == Some("org.freedesktop.login1.BlockedByInhibitorLock");
        let flags = if knows_weak { NO_FLAGS } else { ROOT_CHECK_INHIBITORS };
        match self.ask_with(bus, flags, reason).await? {
            Answer::Outcome(outcome) => Ok(Ok(outcome)),
            Answer::Blocked(refusal) => match self.blockers(bus).await? {
                // Access was denied for another reason than a lock.
                late if late.is_empty() => Err(self.after(refusal)),
                late => Ok(Err(late)),
            },
        }
    }

    async fn overrule(
        &self,
        bus: &mut LoginBus,
        reason: &str,
        over: Vec<InhibitorLock>,
    ) -> Result<RebootOutcome, RebootError> {
        match self.ask_with(bus, SKIP_INHIBITORS, reason).await? {
            Answer::Outcome(RebootOutcome::Requested { .. }) => Ok(RebootOutcome::Requested { over }),
            Answer::Outcome(outcome) => Ok(outcome),
            Answer::Blocked(refusal) => Err(self.after(refusal)),
        }
    }

    /// Request the reboot once with `reason` as wall message. Restores the previous message if the request is
    /// refused.
    async fn ask_with(&self, bus: &mut LoginBus, flags: u64, reason: &str) -> Result<Answer, RebootError> {
        let before = self.announce(bus, reason).await?;
        let refusal = match request(bus, flags).await {
            Ok(()) => return Ok(Answer::Outcome(RebootOutcome::Requested { over: Vec::new() })),
            Err(fault) => fault,
        };
        let Some(name) = refusal.name() else { return Err(self.after(refusal)) };
        let is_under_way = name == "org.freedesktop.login1.OperationInProgress";
        // Before systemd 257 a lock results in `AccessDenied`.
        let may_be_lock = matches!(
            name,
            "org.freedesktop.login1.BlockedByInhibitorLock" | "org.freedesktop.DBus.Error.AccessDenied"
        );
        if let Some(before) = before {
            // The refusal of the reboot is the more informative error.
            drop(bus.set_wall(&before).await);
        }
        if is_under_way {
            let pending = bus.pending_shutdown().await.map_err(|fault| self.before(fault))?;
            let unseen = PendingShutdown { kind: ShutdownKind::Unknown, at: None };
            return joined(pending.unwrap_or(unseen)).map(Answer::Outcome);
        }
        if may_be_lock { Ok(Answer::Blocked(refusal)) } else { Err(self.after(refusal)) }
    }

    /// Set the wall message and return the previous one; `None` if logind refuses it, which does not prevent
    /// the reboot.
    async fn announce(
        &self,
        bus: &mut LoginBus,
        reason: &str,
    ) -> Result<Option<(String, bool)>, RebootError> {
        let announced = async {
            let before = bus.wall().await?;
            bus.set_wall(&(reason.to_owned(), true)).await?;
            Ok(before)
        };
        match announced.await.map_err(|fault| self.before(fault)) {
            Ok(before) => Ok(Some(before)),
            Err(lost @ (RebootError::TimedOut { .. } | RebootError::Unreachable { .. })) => Err(lost),
            Err(refused) => {
                log::warn!("cannot set the wall message for the reboot ({reason}): {refused}");
                Ok(None)
            }
        }
    }
}

impl RebootControl for LogindReboot {
    fn pending_shutdown(&self) -> Result<Option<PendingShutdown>, RebootError> {
        self.ask(async |bus| bus.pending_shutdown().await.map_err(|fault| self.before(fault)))
    }

    fn inhibitors(&self) -> Result<Vec<InhibitorLock>, RebootError> {
        self.ask(async |bus| bus.inhibitors().await.map_err(|fault| self.before(fault)))
    }

    fn reboot(
        &self,
        request: &RebootRequest,
        report: &mut dyn FnMut(&[InhibitorLock]),
    ) -> Result<RebootOutcome, RebootError> {
        self.ask(async |bus| self.wait_and_ask(bus, request, report).await)
    }
}

enum Answer {
    Outcome(RebootOutcome),
    /// Refused, possibly because of a lock.
    Blocked(LogindError),
}

/// Request the reboot with the newest method that this logind has.
async fn request(bus: &mut LoginBus, flags: u64) -> Result<(), LogindError> {
    let asked = bus.reboot_with_flags(flags).await;
    match asked.as_ref().err().and_then(LogindError::name) {
        // systemd before 257, where inhibitor locks do not apply to root.
        Some("org.freedesktop.DBus.Error.InvalidArgs") if flags == SKIP_INHIBITORS => {
            bus.reboot_with_flags(NO_FLAGS).await
        }
        // systemd before 247, where inhibitor locks do not apply to root either.
        Some("org.freedesktop.DBus.Error.UnknownMethod") => bus.reboot().await,
        _ => asked,
    }
}

fn joined(shutdown: PendingShutdown) -> Result<RebootOutcome, RebootError> {
    if shutdown.reboots() {
        Ok(RebootOutcome::AlreadyPending(shutdown))
    } else {
        Err(RebootError::OtherShutdown { shutdown })
    }
}

/// Convert by the error names of org.freedesktop.login1(5) and of the D-Bus specification.
fn explained(error: BusError) -> RebootError {
    match error {
        BusError::DBus(zbus::Error::MethodError(name, text, _)) => {
            super::reboot_error::refused(RebootBackend::Logind, name.as_str(), text.unwrap_or_default())
        }
        BusError::DBus(zbus::Error::Connection(error, _))
            if error.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            RebootError::AccessDenied {
                backend: RebootBackend::Logind,
                source: ReportedError(error.to_string()),
            }
        }
        BusError::DBus(error) => unreachable_because(error.to_string()),
        BusError::ConnectionClosed => unreachable_because("the bus closed the connection".to_owned()),
        BusError::NameLost => unreachable_because("logind left the bus".to_owned()),
    }
}

fn unreachable_because(text: String) -> RebootError {
    RebootError::Unreachable { backend: RebootBackend::Logind, source: ReportedError(text) }
}
