//! Scripted systemd: owns systemd's name on a bus and speaks its protocol.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use zbus::Connection;
use zbus::message::Message;
use zbus::zvariant::{ObjectPath, Value};

use crate::dbus::owner::{CallHandler, Owner, connect};
use crate::dbus::private_bus::Kill;

const NAME: &str = "org.freedesktop.systemd1";
const PATH: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";

/// Reaction to a request for a job; several are performed in order.
#[derive(Debug, Clone)]
pub enum Reaction {
    /// Answer with this job.
    Job(u32),
    /// Signal the end of this job and its result.
    Removed(u32, &'static str),
    /// Send that signal from another peer, as a broadcast and to the caller alone.
    Forged(u32, &'static str),
    /// Answer with an error.
    Refuse(&'static str, &'static str),
    /// Leave the bus.
    Leave,
    /// End the bus.
    EndBus(Kill),
}

/// Behaviour of the fake.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// Reaction to `RestartUnit` and `ReloadUnit`.
    pub job: Vec<Reaction>,
    /// True if `Reload` gets no answer.
    pub ignores_reload: bool,
    /// Properties of every unit, by interface and name; all others are `active`.
    pub properties: BTreeMap<(&'static str, &'static str), &'static str>,
}

impl Script {
    /// Let every job succeed.
    pub fn of_success() -> Self {
        Self { job: vec![Reaction::Job(1), Reaction::Removed(1, "done")], ..Self::default() }
    }
}

/// Scripted systemd that runs until the bus ends or this value is dropped.
#[derive(Debug)]
pub struct FakeSystemd {
    calls: Arc<Mutex<Vec<String>>>,
    _owner: Owner,
}

impl FakeSystemd {
    /// Start the fake, and return once it owns systemd's name.
    pub fn start(address: &str, script: Script) -> Self {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let (seen, at) = (Arc::clone(&calls), address.to_owned());
        let handler = |connection| Handler { connection, address: at, script, calls: seen };
        Self { calls, _owner: Owner::start(address, NAME, handler) }
    }

    /// Number of restarts of this unit that were requested.
    pub fn restarts(&self, unit: &str) -> usize {
        let request = format!("RestartUnit {unit} replace");
        self.calls().iter().filter(|call| **call == request).count()
    }

    /// Methods of the manager that were called, with their arguments.
    pub fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }
}

struct Handler {
    connection: Connection,
    address: String,
    script: Script,
    calls: Arc<Mutex<Vec<String>>>,
}

impl CallHandler for Handler {
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
                if self.script.ignores_reload {
                    return Some(());
                }
                self.connection.reply(&header, &()).await.ok()
            }
            "RestartUnit" | "ReloadUnit" => {
                let (unit, mode): (String, String) = message.body().deserialize().unwrap();
                note(format!("{method} {unit} {mode}"));
                for reaction in &self.script.job {
                    self.react(reaction, message).await?;
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

impl Handler {
    async fn react(&self, reaction: &Reaction, message: &Message) -> Option<()> {
        let header = message.header();
        match reaction {
            Reaction::Job(job) => self.connection.reply(&header, &path_of(*job)).await.ok(),
            Reaction::Refuse(name, text) => self.connection.reply_error(&header, *name, text).await.ok(),
            Reaction::Removed(job, result) => removed(&self.connection, None, *job, result).await,
            Reaction::Forged(job, result) => {
                let peer = connect(&self.address).await;
                removed(&peer, None, *job, result).await?;
                removed(&peer, Some(header.sender()?.as_str()), *job, result).await?;
                // Once the bus answers this call, it has passed on the messages before.
                let (bus, at) = ("org.freedesktop.DBus", "/org/freedesktop/DBus");
                peer.call_method(Some(bus), at, Some(bus), "GetId", &()).await.ok().map(|_| ())
            }
            Reaction::Leave => None,
            Reaction::EndBus(kill) => {
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
