//! logind's side of D-Bus: what is to come, who inhibits it, and the reboot itself.

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

/// Why logind said nothing.
#[derive(Debug)]
pub enum LogindError {
    /// An error of the bus or of logind.
    Bus(BusError),
    /// No answer in time.
    TimedOut,
}

impl<E: Into<BusError>> From<E> for LogindError {
    fn from(error: E) -> Self {
        Self::Bus(error.into())
    }
}

impl LogindError {
    /// The D-Bus name of the error, where logind or the bus answered with one.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Bus(BusError::DBus(zbus::Error::MethodError(name, ..))) => Some(name.as_str()),
            _ => None,
        }
    }
}

/// A connection on which logind answers, and is listened to.
#[derive(Debug)]
pub struct LoginBus {
    connection: Connection,
    /// logind's own name on the bus: any peer may send a signal that looks like logind's.
    logind: OwnedUniqueName,
    messages: MessageStream,
    has_news: bool,
    limit: Duration,
}

impl LoginBus {
    /// Connects, has logind started where the bus can do that, and listens. `limit` holds for this
    /// and for each answer.
    pub async fn connect(address: Option<&str>, limit: Duration) -> Result<Self, LogindError> {
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

    /// The shutdown that is under way, else the one that is scheduled.
    pub async fn pending(&mut self) -> Result<Option<PendingShutdown>, LogindError> {
        if bool::try_from(self.property("PreparingForShutdown").await?)? {
            return Ok(Some(PendingShutdown { kind: self.kind_under_way().await?, at: None }));
        }
        let (word, microseconds): (String, u64) = self.property("ScheduledShutdown").await?.try_into()?;
        // `shutdown --dry-run` only tells people.
        if word.is_empty() || word.starts_with("dry-") {
            return Ok(None);
        }
        let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(microseconds));
        Ok(at.map(|at| PendingShutdown { kind: kind_of(&word), at: Some(at) }))
    }

    /// The locks on shutting down.
    pub async fn inhibitors(&mut self) -> Result<Vec<InhibitorLock>, LogindError> {
        type Row = (String, String, String, String, u32, u32);
        let reply = self.call(LOGIND, "ListInhibitors", &()).await?;
        let rows: Vec<Row> = reply.body().deserialize()?;
        let on_shutdown = rows.into_iter().filter(|row| row.0.split(':').any(|what| what == "shutdown"));
        let named =
            on_shutdown.map(|(_, who, why, mode, uid, pid)| InhibitorLock { who, why, mode, uid, pid });
        Ok(named.collect())
    }

    /// What logind tells everybody on a shutdown, and whether it does.
    pub async fn wall(&mut self) -> Result<(String, bool), LogindError> {
        let message = self.property("WallMessage").await?.try_into()?;
        Ok((message, self.property("EnableWallMessages").await?.try_into()?))
    }

    /// Sets what logind tells everybody.
    pub async fn set_wall(&mut self, wall: &(String, bool)) -> Result<(), LogindError> {
        self.call(LOGIND, "SetWallMessage", wall).await.map(|_| ())
    }

    /// Asks for the reboot, by the method that knows `flags`.
    pub async fn reboot_with_flags(&mut self, flags: u64) -> Result<(), LogindError> {
        self.call(LOGIND, "RebootWithFlags", &flags).await.map(|_| ())
    }

    /// Asks for the reboot, by the method that every logind has.
    pub async fn reboot(&mut self) -> Result<(), LogindError> {
        // Nobody is there who could enter a password.
        let is_interactive = false;
        self.call(LOGIND, "Reboot", &is_interactive).await.map(|_| ())
    }

    /// What was asked after this is older than the next news.
    pub fn forget_changes(&mut self) {
        self.has_news = false;
    }

    /// Returns once something has changed at logind: its locks, or what is to come.
    pub async fn news(&mut self) -> Result<(), LogindError> {
        while !self.has_news {
            let message = self.messages.next().await;
            self.has_news = is_change(&self.logind, message)?;
        }
        Ok(())
    }

    async fn kind_under_way(&mut self) -> Result<ShutdownKind, LogindError> {
        // Since systemd 255.
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

    /// Calls logind, and meanwhile takes what comes: a full queue would hold up the reply.
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

/// Has the bus start logind, which hosts do on the first use.
async fn started(connection: &Connection) -> Result<OwnedUniqueName, LogindError> {
    let no_flags = 0_u32;
    let start = (NAME, no_flags);
    connection.call_method(Some(BUS), BUS_PATH, Some(BUS), "StartServiceByName", &start).await?;
    let owner = connection.call_method(Some(BUS), BUS_PATH, Some(BUS), "GetNameOwner", &NAME).await?;
    Ok(owner.body().deserialize()?)
}

/// Asks the bus for the signals that [`is_news`] reads.
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

/// Whether a message says that something has changed at logind.
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
