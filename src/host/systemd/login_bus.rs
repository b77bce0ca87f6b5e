//! D-Bus calls to logind: pending shutdown, inhibitor locks, reboot.

use std::pin::pin;
use std::time::{Duration, SystemTime};

use futures_lite::StreamExt as _;
use serde::Serialize;
use zbus::message::{Message, Type};
use zbus::names::OwnedUniqueName;
use zbus::zvariant::{DynamicType, OwnedValue};
use zbus::{Connection, MatchRule, MessageStream};

use crate::host::systemd::reboot_port::{InhibitorLock, PendingShutdown, ShutdownKind};
use crate::host::systemd::system_bus::BusError;

const NAME: &str = "org.freedesktop.login1";
const PATH: &str = "/org/freedesktop/login1";
const LOGIND: &str = "org.freedesktop.login1.Manager";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
const BUS: &str = "org.freedesktop.DBus";
const BUS_PATH: &str = "/org/freedesktop/DBus";

/// Failure of a call to logind.
#[derive(Debug)]
pub(crate) enum LogindError {
    Bus(BusError),
    TimedOut,
}

impl<E: Into<BusError>> From<E> for LogindError {
    fn from(error: E) -> Self {
        Self::Bus(error.into())
    }
}

impl LogindError {
    /// D-Bus name of the error, if logind or the bus replied with one.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Bus(BusError::DBus(zbus::Error::MethodError(name, ..))) => Some(name.as_str()),
            _ => None,
        }
    }
}

/// Connection to logind that also receives its signals.
#[derive(Debug)]
pub(crate) struct LoginBus {
    connection: Connection,
    /// logind's unique bus name, to check signals: any bus client can send signals that imitate logind's.
    logind: OwnedUniqueName,
    messages: MessageStream,
    has_news: bool,
    limit: Duration,
}

impl LoginBus {
    /// Connect to the bus, start logind if D-Bus can activate it, and subscribe to its signals. `limit` is
    /// the deadline for this and for each reply.
    pub(crate) async fn connect(address: Option<&str>, limit: Duration) -> Result<Self, LogindError> {
        let connected = async {
            let builder = match address {
                Some(address) => zbus::connection::Builder::address(address)?,
                None => zbus::connection::Builder::system()?,
            };
            let connection = builder.build().await?;
            let ask = connection.call_method(Some(BUS), BUS_PATH, Some(BUS), "GetNameOwner", &NAME);
            let logind = match ask.await {
                Ok(reply) => reply.body().deserialize()?,
                Err(_) => started(&connection).await?,
            };
            forward_signals(&connection, &logind).await?;
            let messages = MessageStream::from(&connection);
            Ok(Self { connection, logind, messages, has_news: false, limit })
        };
        tokio::time::timeout(limit, connected).await.unwrap_or(Err(LogindError::TimedOut))
    }

    /// Return the shutdown in progress, or else the scheduled one.
    pub(crate) async fn pending_shutdown(&mut self) -> Result<Option<PendingShutdown>, LogindError> {
        if bool::try_from(self.property("PreparingForShutdown").await?)? {
            return Ok(Some(PendingShutdown { kind: self.kind_under_way().await?, at: None }));
        }
        let (word, microseconds): (String, u64) = self.property("ScheduledShutdown").await?.try_into()?;
        // `shutdown --dry-run` only sends wall messages.
        if word.is_empty() || word.starts_with("dry-") {
            return Ok(None);
        }
        let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(microseconds));
        Ok(at.map(|at| PendingShutdown { kind: kind_of(&word), at: Some(at) }))
    }

    /// List the inhibitor locks on shutdown, of every mode.
    pub(crate) async fn inhibitors(&mut self) -> Result<Vec<InhibitorLock>, LogindError> {
        type Row = (String, String, String, String, u32, u32);
        let reply = self.call(LOGIND, "ListInhibitors", &()).await?;
        let rows: Vec<Row> = reply.body().deserialize()?;
        let on_shutdown = rows.into_iter().filter(|row| row.0.split(':').any(|what| what == "shutdown"));
        let named =
            on_shutdown.map(|(_, who, why, mode, uid, pid)| InhibitorLock { who, why, mode, uid, pid });
        Ok(named.collect())
    }

    /// Return logind's wall message for a shutdown, and if it is enabled.
    pub(crate) async fn wall(&mut self) -> Result<(String, bool), LogindError> {
        let message = self.property("WallMessage").await?.try_into()?;
        Ok((message, self.property("EnableWallMessages").await?.try_into()?))
    }

    /// Set and enable or disable logind's wall message.
    pub(crate) async fn set_wall(&mut self, wall: &(String, bool)) -> Result<(), LogindError> {
        self.call(LOGIND, "SetWallMessage", wall).await.map(|_| ())
    }

    /// Request a reboot with `RebootWithFlags`, which systemd has since version 247.
    pub(crate) async fn reboot_with_flags(&mut self, flags: u64) -> Result<(), LogindError> {
        self.call(LOGIND, "RebootWithFlags", &flags).await.map(|_| ())
    }

    /// Request a reboot with `Reboot`, which every version has.
    pub(crate) async fn reboot(&mut self) -> Result<(), LogindError> {
        // No user is present to authenticate.
        let is_interactive = false;
        self.call(LOGIND, "Reboot", &is_interactive).await.map(|_| ())
    }

    /// Ignore changes up to now. State read after this call is newer than them.
    pub(crate) fn forget_changes(&mut self) {
        self.has_news = false;
    }

    /// Wait until the inhibitor locks or the pending shutdown change.
    pub(crate) async fn changed(&mut self) -> Result<(), LogindError> {
        while !self.has_news {
            let message = self.messages.next().await;
            self.has_news = is_change(&self.logind, message)?;
        }
        Ok(())
    }

    async fn kind_under_way(&mut self) -> Result<ShutdownKind, LogindError> {
        // Property exists since systemd 255.
        let described = self.property("PreparingForShutdownWithMetadata").await;
        let described = match described {
            Ok(value) => value,
            Err(fault) if fault.name().is_some() => return Ok(ShutdownKind::Unknown),
            Err(fault) => return Err(fault),
        };
        let mut described: std::collections::HashMap<String, OwnedValue> = described.try_into()?;
        let word = described.remove("type").and_then(|word| String::try_from(word).ok());
        Ok(word.map_or(ShutdownKind::Unknown, |word| kind_of(&word)))
    }

    async fn property(&mut self, name: &str) -> Result<OwnedValue, LogindError> {
        let reply = self.call(PROPERTIES, "Get", &(LOGIND, name)).await?;
        Ok(reply.body().deserialize()?)
    }

    /// Call logind and receive signals meanwhile: a full queue would block the reply.
    async fn call<B: Serialize + DynamicType>(
        &mut self,
        interface: &str,
        method: &str,
        body: &B,
    ) -> Result<Message, LogindError> {
        let (connection, logind, limit) = (&self.connection, &self.logind, self.limit);
        let mut call = pin!(connection.call_method(Some(logind), PATH, Some(interface), method, body));
        let answered = async {
            loop {
                tokio::select! {
                    reply = &mut call => return Ok(reply?),
                    message = self.messages.next() => self.has_news |= is_change(logind, message)?,
                }
            }
        };
        tokio::time::timeout(limit, answered).await.unwrap_or(Err(LogindError::TimedOut))
    }
}

fn kind_of(word: &str) -> ShutdownKind {
    match word {
        "reboot" => ShutdownKind::Reboot,
        _ => ShutdownKind::Other(word.to_owned()),
    }
}

/// Start logind by D-Bus activation: hosts start it on first use.
async fn started(connection: &Connection) -> Result<OwnedUniqueName, LogindError> {
    let no_flags = 0_u32;
    let start = (NAME, no_flags);
    connection.call_method(Some(BUS), BUS_PATH, Some(BUS), "StartServiceByName", &start).await?;
    let owner = connection.call_method(Some(BUS), BUS_PATH, Some(BUS), "GetNameOwner", &NAME).await?;
    Ok(owner.body().deserialize()?)
}

/// Subscribe to the signals that [`is_change`] reads.
async fn forward_signals(connection: &Connection, logind: &OwnedUniqueName) -> Result<(), LogindError> {
    let signal = || MatchRule::builder().msg_type(Type::Signal);
    let of_logind = || signal().sender(logind)?.path(PATH);
    let rules = [
        of_logind()?.interface(PROPERTIES)?.member("PropertiesChanged")?.build(),
        of_logind()?.interface(LOGIND)?.member("PrepareForShutdown")?.build(),
        signal().sender(BUS)?.interface(BUS)?.member("NameOwnerChanged")?.add_arg(NAME)?.build(),
    ];
    for rule in rules {
        let rule = rule.to_string();
        connection.call_method(Some(BUS), BUS_PATH, Some(BUS), "AddMatch", &rule).await?;
    }
    Ok(())
}

/// Return true if a message announces a change of logind's state. Fails if logind left the bus.
fn is_change(logind: &OwnedUniqueName, message: Option<zbus::Result<Message>>) -> Result<bool, BusError> {
    let message = message.ok_or(BusError::ConnectionClosed)??;
    let header = message.header();
    if header.message_type() != Type::Signal {
        return Ok(false);
    }
    let sender = header.sender();
    match header.member().map_or("", |member| member.as_str()) {
        "PropertiesChanged" | "PrepareForShutdown" => Ok(sender.is_some_and(|sender| sender == logind)),
        "NameOwnerChanged" if sender.is_some_and(|sender| sender.as_str() == BUS) => {
            let (name, _, _): (String, String, String) = message.body().deserialize()?;
            if name == NAME { Err(BusError::NameLost) } else { Ok(false) }
        }
        _ => Ok(false),
    }
}
