//! D-Bus client of rpm-ostreed: connects, activates the idle daemon, calls it, waits while it is busy.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use zbus::zvariant::Value;
use zbus::{Connection, DBusError as _};

use super::proxies::{DbusOptions, NAME, RpmOstreeStaterootProxy, RpmOstreeSysrootProxy};
use super::transaction::{CancelledBy, RpmOstreeEvent, RpmOstreeOutcome};
use super::{LayerRequest, RpmOstreeDeadlines, transaction};
use crate::core::values::backoff::RetryClass;
use crate::host::facts::boot;
use crate::os::RedactedCause;

/// Client ID given to rpm-ostreed, which records it with its deployments.
const CLIENT: &str = "flameholder";

/// `G_IO_ERROR_BUSY`, as `GDBus` encodes an error without a registered D-Bus name.
const BUSY: &str = "org.gtk.GDBus.UnmappedGError.Quark._g_2dio_2derror_2dquark.Code26";

/// Maximum number of calls if the daemon exits while it is called.
const CALLS: u32 = 5;

/// Error of a call to rpm-ostreed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RpmOstreeError {
    /// No message bus, or no such service on it.
    #[error("rpm-ostreed cannot be reached: {0}; see `systemctl status rpm-ostreed.service`")]
    Unreachable(RedactedCause),
    #[error("rpm-ostreed does not answer within {0} seconds; see `systemctl status rpm-ostreed.service`")]
    TimedOut(u64),
    /// Another client's transaction lasted longer than [`RpmOstreeDeadlines::busy_timeout`].
    #[error("rpm-ostreed is busy: {0}")]
    Busy(RedactedCause),
    /// rpm-ostreed returned an error.
    #[error("rpm-ostreed refuses: {0}")]
    Refused(RedactedCause),
}

/// Result of the call that creates a transaction.
enum Called {
    /// Address of the transaction's socket.
    Transaction(String),
    /// The daemon exited during the call, and may have created one.
    Gone(RedactedCause),
}

/// Connection to rpm-ostreed. A registered client keeps the daemon from exiting when idle.
#[derive(Debug)]
pub struct RpmOstreeDaemon {
    connection: Connection,
    deadlines: RpmOstreeDeadlines,
}

impl RpmOstreeDaemon {
    /// Connect to the bus at `address`, or else to the system bus. The first method call starts the daemon.
    pub async fn connect(
        address: Option<&str>,
        deadlines: RpmOstreeDeadlines,
    ) -> Result<Self, RpmOstreeError> {
        let connected = async {
            let builder = match address {
                Some(address) => zbus::connection::Builder::address(address)?,
                None => zbus::connection::Builder::system()?,
            };
            builder.method_timeout(deadlines.answer).build().await
        };
        let connection = timeout(deadlines.answer, connected).await;
        let connection = connection.map_err(|_| silent(&deadlines))?.map_err(|error| unreachable(&error))?;
        Ok(Self { connection, deadlines })
    }

    /// Return true if rpm-ostreed is running or D-Bus can activate it.
    pub async fn is_available(&self) -> Result<bool, RpmOstreeError> {
        let bus = zbus::fdo::DBusProxy::new(&self.connection).await.map_err(|error| unreachable(&error))?;
        let activatable = bus.list_activatable_names().await.map_err(|error| unreachable(&error.into()))?;
        if activatable.iter().any(|name| name.as_str() == NAME) {
            return Ok(true);
        }
        let running = bus.name_has_owner(NAME.try_into().map_err(|_| silent(&self.deadlines))?).await;
        running.map_err(|error| unreachable(&error.into()))
    }

    /// Open the daemon's objects for the sysroot and the booted stateroot. Repeats the calls if the daemon
    /// exits while it is called.
    async fn objects(
        &self,
    ) -> Result<(RpmOstreeSysrootProxy<'_>, RpmOstreeStaterootProxy<'_>), RpmOstreeError> {
        let mut call = 0;
        loop {
            call += 1;
            match self.register().await {
                Err(error) if call < CALLS && is_gone(&error) => {
                    log::debug!("rpm-ostreed exited while it was called: {error}");
                    sleep(RetryClass::Time.backoff(1, boot::jitter()) / 10).await;
                }
                looked => return looked.map_err(|error| self.failed(&error)),
            }
        }
    }

    /// Register as a client and reload the sysroot. Registering starts the daemon, and is repeated each time
    /// because a restarted daemon has lost its clients.
    async fn register(&self) -> zbus::Result<(RpmOstreeSysrootProxy<'_>, RpmOstreeStaterootProxy<'_>)> {
        let sysroot = RpmOstreeSysrootProxy::new(&self.connection).await?;
        sysroot.register_client(&DbusOptions::from([("id", Value::from(CLIENT))])).await?;
        sysroot.reload().await?;
        let path = sysroot.booted().await?;
        let stateroot = RpmOstreeStaterootProxy::builder(&self.connection).path(path)?.build().await?;
        Ok((sysroot, stateroot))
    }

    /// Ask the daemon to stage a locked deployment. Waits while the daemon is busy and reports the reason to
    /// `on_event`. When `to_cancel` completes, the transaction is cancelled.
    pub async fn layer(
        &self,
        request: &LayerRequest,
        on_event: &mut (dyn FnMut(RpmOstreeEvent) + '_),
        to_cancel: impl Future<Output = ()>,
    ) -> Result<RpmOstreeOutcome, RpmOstreeError> {
        let mut to_cancel = pin!(to_cancel);
        let called = tokio::select! {
            called = self.call(request, on_event) => called?,
            // A transaction created meanwhile is not started; the daemon drops it when the connection closes.
            () = &mut to_cancel => return Ok(RpmOstreeOutcome::Cancelled(CancelledBy::Caller)),
        };
        match called {
            Called::Transaction(address) => {
                let own_name = self.connection.unique_name().map_or("", |name| name.as_str());
                Ok(transaction::follow(&address, own_name, &self.deadlines, on_event, to_cancel).await)
            }
            Called::Gone(cause) => Ok(RpmOstreeOutcome::Unknown(cause)),
        }
    }

    /// Repeat the call until the daemon is no longer busy.
    async fn call(
        &self,
        request: &LayerRequest,
        on_event: &mut (dyn FnMut(RpmOstreeEvent) + '_),
    ) -> Result<Called, RpmOstreeError> {
        let patience = Instant::now() + self.deadlines.busy_timeout;
        let mut failures = 0;
        loop {
            let (sysroot, stateroot) = self.objects().await?;
            // rpm-ostreed joins equal calls and returns the earlier transaction's result. A unique command
            // line prevents that.
            let command_line = format!("{CLIENT} {}", boot::new_generation_id());
            let (modifiers, options) = (request.modifiers(), request.options(&command_line));
            match stateroot.update_deployment(&modifiers, &options).await {
                Ok(address) => return Ok(Called::Transaction(address)),
                Err(error) if is_busy(&error) => {
                    let with = busy_reason(&sysroot, &error).await;
                    if Instant::now() >= patience {
                        return Err(RpmOstreeError::Busy(RedactedCause::new(&with)));
                    }
                    on_event(RpmOstreeEvent::Busy(with));
                    failures += 1;
                    sleep(self.deadlines.poll_interval(failures)).await;
                }
                Err(error) if is_gone(&error) => {
                    let text = format!("rpm-ostreed exited while it was called: {error}");
                    return Ok(Called::Gone(RedactedCause::new(&text)));
                }
                Err(error) => return Err(self.failed(&error)),
            }
        }
    }

    /// Wait until the daemon has no active transaction. Reports the active one to `on_event`.
    pub async fn wait_until_idle(
        &self,
        on_event: &mut (dyn FnMut(RpmOstreeEvent) + '_),
    ) -> Result<(), RpmOstreeError> {
        let patience = Instant::now() + self.deadlines.busy_timeout;
        let mut looks = 0;
        loop {
            let (sysroot, _) = self.objects().await?;
            let active = sysroot.active_transaction().await.map_err(|error| self.failed(&error))?;
            let Some(with) = describe_transaction(&active) else { return Ok(()) };
            if Instant::now() >= patience {
                return Err(RpmOstreeError::Busy(RedactedCause::new(&with)));
            }
            on_event(RpmOstreeEvent::Busy(with));
            looks += 1;
            sleep(self.deadlines.poll_interval(looks)).await;
        }
    }

    /// Unregister, so that the daemon can exit when idle. Errors are ignored: closing the connection has the
    /// same effect.
    pub async fn disconnect(self) {
        if let Ok(sysroot) = RpmOstreeSysrootProxy::new(&self.connection).await {
            drop(sysroot.unregister_client(&DbusOptions::new()).await);
        }
        drop(timeout(self.deadlines.answer, self.connection.close()).await);
    }

    fn failed(&self, error: &zbus::Error) -> RpmOstreeError {
        match error {
            zbus::Error::MethodError(..) if is_gone(error) => unreachable(error),
            zbus::Error::MethodError(_, text, _) => {
                let text = text.clone().unwrap_or_else(|| error.to_string());
                RpmOstreeError::Refused(RedactedCause::new(&text))
            }
            zbus::Error::InputOutput(source) if source.kind() == std::io::ErrorKind::TimedOut => {
                silent(&self.deadlines)
            }
            error => unreachable(error),
        }
    }
}

fn unreachable(error: &zbus::Error) -> RpmOstreeError {
    RpmOstreeError::Unreachable(RedactedCause::new(&error.to_string()))
}

fn silent(deadlines: &RpmOstreeDeadlines) -> RpmOstreeError {
    RpmOstreeError::TimedOut(deadlines.answer.as_secs())
}

/// D-Bus name of the error. A failed property access has another error type than a failed method call.
fn name_of(error: &zbus::Error) -> String {
    match error {
        zbus::Error::MethodError(name, ..) => name.to_string(),
        zbus::Error::FDO(error) => error.name().to_string(),
        _ => String::new(),
    }
}

fn is_busy(error: &zbus::Error) -> bool {
    name_of(error) == BUSY
}

/// Return true if the daemon exited or could not be started, rather than answering with an error.
fn is_gone(error: &zbus::Error) -> bool {
    let names = ["NoReply", "NameHasNoOwner", "Disconnected", "ServiceUnknown", "TimedOut"];
    let name = name_of(error);
    let name = name.strip_prefix("org.freedesktop.DBus.Error.");
    name.is_some_and(|name| names.contains(&name) || name.starts_with("Spawn."))
}

/// Describe the active transaction and its client, or else quote the error.
async fn busy_reason(sysroot: &RpmOstreeSysrootProxy<'_>, error: &zbus::Error) -> String {
    let text = match error {
        zbus::Error::MethodError(_, Some(text), _) => text.lines().next().unwrap_or_default(),
        _ => "",
    };
    match sysroot.active_transaction().await.ok().and_then(|active| describe_transaction(&active)) {
        Some(active) => format!("{text} ({active})"),
        None => text.to_owned(),
    }
}

/// Describe a value of [`RpmOstreeSysrootProxy::active_transaction`]; `None` if no transaction is active.
fn describe_transaction((method, caller, _): &(String, String, String)) -> Option<String> {
    (!method.is_empty()).then(|| format!("{method}, started by {caller}"))
}

impl RpmOstreeDeadlines {
    /// Delay before the next call to a busy daemon.
    fn poll_interval(&self, failures: u32) -> Duration {
        RetryClass::Time.backoff(failures, boot::jitter()).min(self.max_poll_interval)
    }
}
