//! A systemd that follows a script: it owns systemd's name on a bus and speaks its protocol.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use zbus::Connection;
use zbus::message::Message;
use zbus::zvariant::{ObjectPath, Value};

use crate::dbus::owner::{Answers, Owner, connect};
use crate::dbus::private_bus::Kill;

const NAME: &str = "org.freedesktop.systemd1";
const PATH: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";

/// What it does when a job is asked for, one after the other.
#[derive(Debug, Clone)]
pub enum Act {
    /// Answers with this job.
    Job(u32),
    /// Says that this job is gone, and how it ended.
    Removed(u32, &'static str),
    /// Another peer says so, to everybody and to the caller alone.
    Forged(u32, &'static str),
    /// Answers with an error.
    Refuse(&'static str, &'static str),
    /// Leaves the bus.
    Leave,
    /// Ends the bus.
    EndBus(Kill),
}

/// What it does.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// On `RestartUnit` and `ReloadUnit`.
    pub job: Vec<Act>,
    /// Whether it answers `Reload`.
    pub is_deaf_to_reload: bool,
    /// Properties of every unit, by interface and name; all others are `active`.
    pub properties: BTreeMap<(&'static str, &'static str), &'static str>,
}

/// Runs until the bus is gone or it is dropped.
#[derive(Debug)]
pub struct FakeSystemd {
    calls: Arc<Mutex<Vec<String>>>,
    _owner: Owner,
}

impl FakeSystemd {
    /// Returns once it owns systemd's name.
    pub fn start(address: &str, script: Script) -> Self {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let (seen, at) = (Arc::clone(&calls), address.to_owned());
        let playing = |connection| Playing { connection, address: at, script, calls: seen };
        Self { calls, _owner: Owner::start(address, NAME, playing) }
    }

    /// The manager's methods that were called, with what they were called with.
    pub fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }
}

struct Playing {
    connection: Connection,
    address: String,
    script: Script,
    calls: Arc<Mutex<Vec<String>>>,
}

impl Answers for Playing {
    async fn answer(&mut self, message: &Message) -> Option<()> {
        let header = message.header();
        let method = header.member()?.as_str();
        let note = |call: String| self.calls.lock().unwrap().push(call);
        match method {
            "Subscribe" => {
                note(method.to_owned());
                self.connection.reply(&header, &()).await.ok()
            }
            "Reload" => {
                note(method.to_owned());
                if self.script.is_deaf_to_reload {
                    return Some(());
                }
                self.connection.reply(&header, &()).await.ok()
            }
            "RestartUnit" | "ReloadUnit" => {
                let (unit, mode): (String, String) = message.body().deserialize().unwrap();
                note(format!("{method} {unit} {mode}"));
                for act in &self.script.job {
                    self.act(act, message).await?;
                }
                Some(())
            }
            "LoadUnit" => {
                let unit = ObjectPath::from_static_str_unchecked("/org/freedesktop/systemd1/unit/x");
                self.connection.reply(&header, &unit).await.ok()
            }
            "Get" => {
                let (interface, name): (String, String) = message.body().deserialize().unwrap();
                let found = self.script.properties.get(&(interface.as_str(), name.as_str()));
                let value = Value::from(*found.unwrap_or(&"active"));
                self.connection.reply(&header, &value).await.ok()
            }
            _ => Some(()),
        }
    }
}

impl Playing {
    async fn act(&self, act: &Act, message: &Message) -> Option<()> {
        let header = message.header();
        match act {
            Act::Job(job) => self.connection.reply(&header, &path_of(*job)).await.ok(),
            Act::Refuse(name, text) => self.connection.reply_error(&header, *name, text).await.ok(),
            Act::Removed(job, result) => removed(&self.connection, None, *job, result).await,
            Act::Forged(job, result) => {
                let peer = connect(&self.address).await;
                removed(&peer, None, *job, result).await?;
                removed(&peer, Some(header.sender()?.as_str()), *job, result).await?;
                // Once this is answered, the bus has passed on what came before.
                let (bus, at) = ("org.freedesktop.DBus", "/org/freedesktop/DBus");
                peer.call_method(Some(bus), at, Some(bus), "GetId", &()).await.ok().map(|_| ())
            }
            Act::Leave => None,
            Act::EndBus(kill) => {
                kill.now();
                None
            }
        }
    }
}

fn path_of(job: u32) -> ObjectPath<'static> {
    ObjectPath::try_from(format!("{PATH}/job/{job}")).unwrap()
}

async fn removed(from: &Connection, to: Option<&str>, job: u32, result: &str) -> Option<()> {
    let body = (job, path_of(job), "x.service", result);
    from.emit_signal(to, PATH, MANAGER, "JobRemoved", &body).await.ok()
}
