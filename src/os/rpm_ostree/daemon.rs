//! rpm-ostreed on the bus: found, started where it idles, asked, and waited for where it is busy.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use zbus::zvariant::Value;
use zbus::{Connection, DBusError as _};

use super::proxies::{NAME, Options, StaterootProxy, SysrootProxy};
use super::transaction;
use super::transaction::{Canceller, News, Outcome};
use super::{Deadlines, LayerRequest};
use crate::core::values::backoff::RetryClass;
use crate::host::facts::boot;
use crate::os::Cause;

/// What it calls itself towards the daemon, which notes that with what it deploys.
const CLIENT: &str = "flameholder";

/// `G_IO_ERROR_BUSY`, as `GDBus` spells an error that it knows no name for.
const BUSY: &str = "org.gtk.GDBus.UnmappedGError.Quark._g_2dio_2derror_2dquark.Code26";

/// How often it is called at most where it leaves meanwhile.
const CALLS: u32 = 5;

/// Why the daemon could not be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DaemonError {
    /// There is no bus, or no such service on it.
    #[error("rpm-ostreed cannot be reached: {0}; see `systemctl status rpm-ostreed.service`")]
    Unreachable(Cause),
    /// It said nothing in time.
    #[error("rpm-ostreed does not answer within {0} seconds; see `systemctl status rpm-ostreed.service`")]
    Silent(u64),
    /// Somebody else has it do something, for longer than is waited for.
    #[error("rpm-ostreed is busy: {0}")]
    Busy(Cause),
    /// It refuses.
    #[error("rpm-ostreed refuses: {0}")]
    Refused(Cause),
}

/// What a call led to.
enum Called {
    /// A transaction, which is found there.
    Transaction(String),
    /// The daemon went away, and may have made one.
    Gone(Cause),
}

/// A connection on which the daemon is asked. While it lives, the daemon does not leave for want of work.
#[derive(Debug)]
pub struct Daemon {
    connection: Connection,
    deadlines: Deadlines,
}

impl Daemon {
    /// Connects to the bus at `address`, else to the system's. The daemon itself is started when it is asked.
    pub async fn connect(address: Option<&str>, deadlines: Deadlines) -> Result<Self, DaemonError> {
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
    pub async fn is_there(&self) -> Result<bool, DaemonError> {
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
    async fn objects(&self) -> Result<(SysrootProxy<'_>, StaterootProxy<'_>), DaemonError> {
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
    async fn look(&self) -> zbus::Result<(SysrootProxy<'_>, StaterootProxy<'_>)> {
        let sysroot = SysrootProxy::new(&self.connection).await?;
        sysroot.register_client(&Options::from([("id", Value::from(CLIENT))])).await?;
        sysroot.reload().await?;
        let path = sysroot.booted().await?;
        let stateroot = StaterootProxy::builder(&self.connection).path(path)?.build().await?;
        Ok((sysroot, stateroot))
    }

    /// Has the daemon make a deployment, staged and locked. Where it is busy, that is waited for; `news` says with what.
    /// Once `to_cancel` returns, it is asked to stop.
    pub async fn layer(
        &self,
        request: &LayerRequest,
        news: &mut (dyn FnMut(News) + '_),
        to_cancel: impl Future<Output = ()>,
    ) -> Result<Outcome, DaemonError> {
        let mut to_cancel = pin!(to_cancel);
        let called = tokio::select! {
            called = self.call(request, news) => called?,
            // What was called for meanwhile is not started, and goes with the connection.
            () = &mut to_cancel => return Ok(Outcome::Cancelled(Canceller::Caller)),
        };
        match called {
            Called::Transaction(address) => {
                let own_name = self.connection.unique_name().map_or("", |name| name.as_str());
                Ok(transaction::follow(&address, own_name, &self.deadlines, news, to_cancel).await)
            }
            Called::Gone(cause) => Ok(Outcome::Unknown(cause)),
        }
    }

    /// Calls for it until the daemon is not busy.
    async fn call(
        &self,
        request: &LayerRequest,
        news: &mut (dyn FnMut(News) + '_),
    ) -> Result<Called, DaemonError> {
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
                    let with = with_what(&sysroot, &error).await;
                    if Instant::now() >= patience {
                        return Err(DaemonError::Busy(Cause::new(&with)));
                    }
                    news(News::Waits(with));
                    failures += 1;
                    sleep(self.deadlines.pace(failures)).await;
                }
                Err(error) if is_gone(&error) => {
                    let text = format!("rpm-ostreed went away when it was called: {error}");
                    return Ok(Called::Gone(Cause::new(&text)));
                }
                Err(error) => return Err(self.failed(&error)),
            }
        }
    }

    /// Waits until it has nothing to do; `news` says with what it is busy.
    pub async fn until_idle(&self, news: &mut (dyn FnMut(News) + '_)) -> Result<(), DaemonError> {
        let patience = Instant::now() + self.deadlines.patience;
        let mut looks = 0;
        loop {
            let (sysroot, _) = self.objects().await?;
            let active = sysroot.active_transaction().await.map_err(|error| self.failed(&error))?;
            let Some(with) = in_words(&active) else { return Ok(()) };
            if Instant::now() >= patience {
                return Err(DaemonError::Busy(Cause::new(&with)));
            }
            news(News::Waits(with));
            looks += 1;
            sleep(self.deadlines.pace(looks)).await;
        }
    }

    /// Lets the daemon go, which leaves by itself then. Nothing depends on it: the end of the connection says the same.
    pub async fn leave(self) {
        if let Ok(sysroot) = SysrootProxy::new(&self.connection).await {
            drop(sysroot.unregister_client(&Options::new()).await);
        }
        drop(timeout(self.deadlines.answer, self.connection.close()).await);
    }

    fn failed(&self, error: &zbus::Error) -> DaemonError {
        match error {
            zbus::Error::MethodError(..) if is_gone(error) => unreachable(error),
            zbus::Error::MethodError(_, text, _) => {
                let text = text.clone().unwrap_or_else(|| error.to_string());
                DaemonError::Refused(Cause::new(&text))
            }
            zbus::Error::InputOutput(source) if source.kind() == std::io::ErrorKind::TimedOut => {
                silent(&self.deadlines)
            }
            error => unreachable(error),
        }
    }
}

fn unreachable(error: &zbus::Error) -> DaemonError {
    DaemonError::Unreachable(Cause::new(&error.to_string()))
}

fn silent(deadlines: &Deadlines) -> DaemonError {
    DaemonError::Silent(deadlines.answer.as_secs())
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
async fn with_what(sysroot: &SysrootProxy<'_>, error: &zbus::Error) -> String {
    let text = match error {
        zbus::Error::MethodError(_, Some(text), _) => text.lines().next().unwrap_or_default(),
        _ => "",
    };
    match sysroot.active_transaction().await.ok().and_then(|active| in_words(&active)) {
        Some(active) => format!("{text} ({active})"),
        None => text.to_owned(),
    }
}

/// The transaction that is active, as [`SysrootProxy::active_transaction`] says it.
fn in_words((method, caller, _): &(String, String, String)) -> Option<String> {
    (!method.is_empty()).then(|| format!("{method}, called by {caller}"))
}

impl Deadlines {
    /// How long to wait before a busy daemon is asked again.
    fn pace(&self, failures: u32) -> Duration {
        RetryClass::Time.delay(failures, boot::chance()).min(self.pace)
    }
}
