//! D-Bus calls to systemd over the system bus: unit properties, and jobs with their results.

use std::pin::pin;

use futures_lite::StreamExt as _;
use serde::Serialize;
use zbus::message::{Message, Type};
use zbus::names::OwnedUniqueName;
use zbus::zvariant::{DynamicType, OwnedObjectPath, OwnedValue};
use zbus::{Connection, MatchRule, MessageStream};

const NAME: &str = "org.freedesktop.systemd1";
const PATH: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
const BUS: &str = "org.freedesktop.DBus";
const BUS_PATH: &str = "/org/freedesktop/DBus";

/// Failure of a call to systemd, or of waiting for a job.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BusError {
    /// Error of the bus or error reply of systemd.
    #[error(transparent)]
    DBus(zbus::Error),
    #[error("the connection to the bus was closed")]
    ConnectionClosed,
    /// systemd left the bus.
    #[error("systemd left the bus")]
    NameLost,
}

impl From<zbus::Error> for BusError {
    fn from(error: zbus::Error) -> Self {
        Self::DBus(error)
    }
}

impl From<zbus::zvariant::Error> for BusError {
    fn from(error: zbus::zvariant::Error) -> Self {
        Self::DBus(error.into())
    }
}

/// Element of `ExecStop` in org.freedesktop.systemd1(5): program, command line, flag to ignore failure, and
/// times and status of the last run.
type ExecCommand = (String, Vec<String>, bool, u64, u64, u64, u64, u32, i32, i32);

/// State of a unit.
#[derive(Debug)]
pub(crate) struct ActiveState {
    /// `ActiveState`: `active`, `inactive`, `failed` and so on.
    pub active: String,
    /// `SubState`, specific to the unit type, such as `auto-restart`.
    pub sub: String,
}

/// Finished job, from a `JobRemoved` signal.
struct Removed {
    job: OwnedObjectPath,
    result: String,
}

#[derive(Debug)]
pub(crate) struct SystemBus {
    connection: Connection,
    /// systemd's unique bus name, to check signals: any bus client can send signals that imitate systemd's.
    systemd: OwnedUniqueName,
}

impl SystemBus {
    /// Connect and look up systemd's bus name.
    pub(crate) async fn connect(address: Option<&str>) -> Result<Self, BusError> {
        let builder = match address {
            Some(address) => zbus::connection::Builder::address(address)?,
            None => zbus::connection::Builder::system()?,
        };
        let connection = builder.build().await?;
        let ask = connection.call_method(Some(BUS), BUS_PATH, Some(BUS), "GetNameOwner", &NAME);
        let systemd: OwnedUniqueName = ask.await?.body().deserialize()?;
        Ok(Self { connection, systemd })
    }

    /// Call a method of the manager that has neither arguments nor result.
    pub(crate) async fn ask(&self, method: &str) -> Result<(), BusError> {
        self.call(PATH, MANAGER, method, &()).await.map(|_| ())
    }

    /// Queue a job for `unit` with `method`, wait for its end, and return its result (`done`, `failed` and so
    /// on).
    pub(crate) async fn job(&self, method: &str, unit: &str) -> Result<String, BusError> {
        // This order misses no signal: add the match rule, listen, subscribe, and only then queue the job.
        // The job may end before its object path is known here.
        self.forward_signals().await?;
        let mut messages = MessageStream::from(&self.connection);
        self.ask_while_listening(&mut messages, "Subscribe", &()).await?;
        let (reply, mut removed) =
            self.ask_while_listening(&mut messages, method, &(unit, "replace")).await?;
        let job: OwnedObjectPath = reply.body().deserialize()?;
        loop {
            if let Some(ended) = removed.into_iter().find(|removed| removed.job == job) {
                return Ok(ended.result);
            }
            removed = self.removed(messages.next().await)?.into_iter().collect();
        }
    }

    /// Start `unit` if it is not active, and no job of it is queued: its start failed with that of a unit that it requires. Does
    /// not wait for it. Returns true if it is started.
    pub(crate) async fn start_left_behind(&self, unit: &str) -> Result<bool, BusError> {
        let interface = format!("{NAME}.Unit");
        let active = self.property(unit, &interface, "ActiveState").await?;
        let (job, _) = <(u32, OwnedObjectPath)>::try_from(self.value(unit, &interface, "Job").await?)?;
        if !["inactive", "failed"].contains(&active.as_str()) || job != 0 {
            return Ok(false);
        }
        self.call(PATH, MANAGER, "StartUnit", &(unit, "replace")).await.map(|_| true)
    }

    pub(crate) async fn state(&self, unit: &str) -> Result<ActiveState, BusError> {
        let interface = format!("{NAME}.Unit");
        let (active, sub) =
            (self.property(unit, &interface, "ActiveState"), self.property(unit, &interface, "SubState"));
        Ok(ActiveState { active: active.await?, sub: sub.await? })
    }

    /// Read a property of the unit type's interface, such as `Result` of a service.
    pub(crate) async fn of_type(&self, unit: &str, property: &str) -> Result<String, BusError> {
        let suffix = unit.rsplit_once('.').map_or("service", |(_, suffix)| suffix);
        let (initial, rest) = suffix.split_at_checked(1).unwrap_or_default();
        let interface = format!("{NAME}.{}{rest}", initial.to_ascii_uppercase());
        self.property(unit, &interface, property).await
    }

    /// Read the `ExecStop=` command lines of a service.
    pub(crate) async fn stop_commands(&self, unit: &str) -> Result<Vec<Vec<String>>, BusError> {
        let value = self.value(unit, &format!("{NAME}.Service"), "ExecStop").await?;
        let commands = Vec::<ExecCommand>::try_from(value)?;
        Ok(commands.into_iter().map(|(_, line, ..)| line).collect())
    }

    async fn property(&self, unit: &str, interface: &str, property: &str) -> Result<String, BusError> {
        Ok(String::try_from(self.value(unit, interface, property).await?)?)
    }

    async fn value(&self, unit: &str, interface: &str, property: &str) -> Result<OwnedValue, BusError> {
        // An inactive unit may be unloaded at any moment; loading it again changes nothing.
        let path = self.call(PATH, MANAGER, "LoadUnit", &unit).await?;
        let path: OwnedObjectPath = path.body().deserialize()?;
        let value = self.call(path.as_str(), PROPERTIES, "Get", &(interface, property)).await?;
        Ok(value.body().deserialize()?)
    }

    async fn call<B: Serialize + DynamicType>(
        &self,
        path: &str,
        interface: &str,
        method: &str,
        body: &B,
    ) -> Result<Message, BusError> {
        let call = self.connection.call_method(Some(&self.systemd), path, Some(interface), method, body);
        Ok(call.await?)
    }

    /// Subscribe to the signals that [`SystemBus::removed`] reads.
    async fn forward_signals(&self) -> Result<(), BusError> {
        let of_jobs = MatchRule::builder()
            .msg_type(Type::Signal)
            .sender(&self.systemd)?
            .path(PATH)?
            .interface(MANAGER)?
            .member("JobRemoved")?
            .build();
        let of_systemd = MatchRule::builder()
            .msg_type(Type::Signal)
            .sender(BUS)?
            .interface(BUS)?
            .member("NameOwnerChanged")?
            .add_arg(NAME)?
            .build();
        for rule in [of_jobs, of_systemd] {
            let rule = rule.to_string();
            self.connection.call_method(Some(BUS), BUS_PATH, Some(BUS), "AddMatch", &rule).await?;
        }
        Ok(())
    }

    /// Call the manager and receive signals meanwhile: a full queue would block the reply.
    async fn ask_while_listening<B: Serialize + DynamicType>(
        &self,
        messages: &mut MessageStream,
        method: &str,
        body: &B,
    ) -> Result<(Message, Vec<Removed>), BusError> {
        let mut call = pin!(self.call(PATH, MANAGER, method, body));
        let mut removed = Vec::new();
        loop {
            tokio::select! {
                reply = &mut call => return Ok((reply?, removed)),
                message = messages.next() => removed.extend(self.removed(message)?),
            }
        }
    }

    /// Return the job whose end the message reports; `None` for other messages.
    fn removed(&self, message: Option<zbus::Result<Message>>) -> Result<Option<Removed>, BusError> {
        let message = message.ok_or(BusError::ConnectionClosed)??;
        let header = message.header();
        if header.message_type() != Type::Signal {
            return Ok(None);
        }
        let (sender, member) = (header.sender(), header.member());
        match member.map_or("", |member| member.as_str()) {
            "JobRemoved" if sender.is_some_and(|sender| *sender == self.systemd) => {
                let (_, job, _, result): (u32, OwnedObjectPath, String, String) =
                    message.body().deserialize()?;
                Ok(Some(Removed { job, result }))
            }
            "NameOwnerChanged" if sender.is_some_and(|sender| sender.as_str() == BUS) => {
                let (name, _, _): (String, String, String) = message.body().deserialize()?;
                if name == NAME { Err(BusError::NameLost) } else { Ok(None) }
            }
            _ => Ok(None),
        }
    }
}
