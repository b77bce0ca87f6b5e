//! rpm-ostreed on the bus: found, started where it idles, asked, and waited for where it is busy.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use zbus::zvariant::Value;
use zbus::{Connection, DBusError as _};

use super::proxies::{DbusOptions, NAME, RpmOstreeStaterootProxy, RpmOstreeSysrootProxy};
use super::transaction;
use super::transaction::{CancelledBy, RpmOstreeEvent, RpmOstreeOutcome};
use super::{LayerRequest, RpmOstreeDeadlines};
use crate::core::values::backoff::RetryClass;
use crate::host::facts::boot;
use crate::os::RedactedCause;

/// What it calls itself towards the daemon, which notes that with what it deploys.
const CLIENT: &str = "flameholder";

/// `G_IO_ERROR_BUSY`, as `GDBus` spells an error that it knows no name for.
const BUSY: &str = "org.gtk.GDBus.UnmappedGError.Quark._g_2dio_2derror_2dquark.Code26";

/// How often it is called at most where it leaves meanwhile.
const CALLS: u32 = 5;

/// Why the daemon could not be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RpmOstreeError {
    /// There is no bus, or no such service on it.
    #[error("rpm-ostreed cannot be reached: {0}; see `systemctl status rpm-ostreed.service`")]
    Unreachable(RedactedCause),
    /// It said nothing in time.
    #[error("rpm-ostreed does not answer within {0} seconds; see `systemctl status rpm-ostreed.service`")]
    TimedOut(u64),
    /// Somebody else has it do something, for longer than is waited for.
    #[error("rpm-ostreed is busy: {0}")]
    Busy(RedactedCause),
    /// It refuses.
    #[error("rpm-ostreed refuses: {0}")]
    Refused(RedactedCause),
}

/// What a call led to.
enum Called {
    /// A transaction, which is found there.
    Transaction(String),
    /// The daemon went away, and may have made one.
    Gone(RedactedCause),
}

/// A connection on which the daemon is asked. While it lives, the daemon does not leave for want of work.
#[derive(Debug)]
pub struct RpmOstreeDaemon {
    connection: Connection,
    deadlines: RpmOstreeDeadlines,
}

impl RpmOstreeDaemon {
    /// Connects to the bus at `address`, else to the system's. The daemon itself is started when it is asked.
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

    /// Whether the bus knows how to start the daemon, or it runs.
    pub async fn is_there(&self) -> Result<bool, RpmOstreeError> {
        let bus = zbus::fdo::DBusProxy::new(&self.connection).await.map_err(|error| unreachable(&error))?;
        let activatable = bus.list_activatable_names().await.map_err(|error| unreachable(&error.into()))?;
        if activatable.iter().any(|name| name.as_str() == NAME) {
            return Ok(true);
        }
        let running = bus.name_has_owner(NAME.try_into().map_err(|_| silent(&self.deadlines))?).await;
        running.map_err(|error| unreachable(&error.into()))
    }

    /// The objects of the daemon: of the sysroot, and of the stateroot that runs. One that leaves, or dies, at the very
    /// moment in which it is called is called again.
    async fn objects(
        &self,
    ) -> Result<(RpmOstreeSysrootProxy<'_>, RpmOstreeStaterootProxy<'_>), RpmOstreeError> {
        let mut call = 0;
        loop {
            call += 1;
            match self.look().await {
                Err(error) if call < CALLS && is_gone(&error) => {
                    log::debug!("rpm-ostreed left while it was called: {error}");
                    sleep(RetryClass::Time.delay(1, boot::chance()) / 10).await;
                }
                looked => return looked.map_err(|error| self.failed(&error)),
            }
        }
    }

    /// Registers, which starts the daemon, every time: one that was started anew does not know us. Then it looks at the
    /// sysroot.
    async fn look(&self) -> zbus::Result<(RpmOstreeSysrootProxy<'_>, RpmOstreeStaterootProxy<'_>)> {
        let sysroot = RpmOstreeSysrootProxy::new(&self.connection).await?;
        sysroot.register_client(&DbusOptions::from([("id", Value::from(CLIENT))])).await?;
        sysroot.reload().await?;
        let path = sysroot.booted().await?;
        let stateroot = RpmOstreeStaterootProxy::builder(&self.connection).path(path)?.build().await?;
        Ok((sysroot, stateroot))
    }

    /// Has the daemon make a deployment, staged and locked. Where it is busy, that is waited for; `news` says with what.
    /// Once `to_cancel` returns, it is asked to stop.
    pub async fn layer(
        &self,
        request: &LayerRequest,
        news: &mut (dyn FnMut(RpmOstreeEvent) + '_),
        to_cancel: impl Future<Output = ()>,
    ) -> Result<RpmOstreeOutcome, RpmOstreeError> {
        let mut to_cancel = pin!(to_cancel);
        let called = tokio::select! {
            called = self.call(request, news) => called?,
            // What was called for meanwhile is not started, and goes with the connection.
            () = &mut to_cancel => return Ok(RpmOstreeOutcome::Cancelled(CancelledBy::Caller)),
        };
        match called {
            Called::Transaction(address) => {
                let own_name = self.connection.unique_name().map_or("", |name| name.as_str());
                Ok(transaction::follow(&address, own_name, &self.deadlines, news, to_cancel).await)
            }
            Called::Gone(cause) => Ok(RpmOstreeOutcome::Unknown(cause)),
        }
    }

    /// Calls for it until the daemon is not busy.
    async fn call(
        &self,
        request: &LayerRequest,
        news: &mut (dyn FnMut(RpmOstreeEvent) + '_),
    ) -> Result<Called, RpmOstreeError> {
        let patience = Instant::now() + self.deadlines.patience;
        let mut failures = 0;
        loop {
            let (sysroot, stateroot) = self.objects().await?;
            // Equal calls are joined, and the result of the earlier one is taken for theirs: this makes each unlike all others.
            let command_line = format!("{CLIENT} {}", boot::new_generation_id());
            let (modifiers, options) = (request.modifiers(), request.options(&command_line));
            match stateroot.update_deployment(&modifiers, &options).await {
                Ok(address) => return Ok(Called::Transaction(address)),
                Err(error) if is_busy(&error) => {
                    let with = busy_reason(&sysroot, &error).await;
                    if Instant::now() >= patience {
                        return Err(RpmOstreeError::Busy(RedactedCause::new(&with)));
                    }
                    news(RpmOstreeEvent::Busy(with));
                    failures += 1;
                    sleep(self.deadlines.pace(failures)).await;
                }
                Err(error) if is_gone(&error) => {
                    let text = format!("rpm-ostreed went away when it was called: {error}");
                    return Ok(Called::Gone(RedactedCause::new(&text)));
                }
                Err(error) => return Err(self.failed(&error)),
            }
        }
    }

    /// Waits until it has nothing to do; `news` says with what it is busy.
    pub async fn until_idle(
        &self,
        news: &mut (dyn FnMut(RpmOstreeEvent) + '_),
    ) -> Result<(), RpmOstreeError> {
        let patience = Instant::now() + self.deadlines.patience;
        let mut looks = 0;
        loop {
            let (sysroot, _) = self.objects().await?;
            let active = sysroot.active_transaction().await.map_err(|error| self.failed(&error))?;
            let Some(with) = describe_transaction(&active) else { return Ok(()) };
            if Instant::now() >= patience {
                return Err(RpmOstreeError::Busy(RedactedCause::new(&with)));
            }
            news(RpmOstreeEvent::Busy(with));
            looks += 1;
            sleep(self.deadlines.pace(looks)).await;
        }
    }

    /// Lets the daemon go, which leaves by itself then. Nothing depends on it: the end of the connection says the same.
    pub async fn leave(self) {
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

/// The error's D-Bus name. Those of properties come by another way.
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

/// Whether the daemon, and not what it says, is the reason.
fn is_gone(error: &zbus::Error) -> bool {
    let names = ["NoReply", "NameHasNoOwner", "Disconnected", "ServiceUnknown", "TimedOut"];
    let name = name_of(error);
    let name = name.strip_prefix("org.freedesktop.DBus.Error.");
    name.is_some_and(|name| names.contains(&name) || name.starts_with("Spawn."))
}

/// What the daemon is busy with: who calls for what, or the text of the error.
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

/// The transaction that is active, as [`RpmOstreeSysrootProxy::active_transaction`] says it.
fn describe_transaction((method, caller, _): &(String, String, String)) -> Option<String> {
    (!method.is_empty()).then(|| format!("{method}, called by {caller}"))
}

impl RpmOstreeDeadlines {
    /// How long to wait before a busy daemon is asked again.
    fn pace(&self, failures: u32) -> Duration {
        RetryClass::Time.delay(failures, boot::chance()).min(self.pace)
    }
}
