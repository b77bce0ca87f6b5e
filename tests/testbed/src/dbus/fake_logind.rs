//! A logind that follows a script: it owns logind's name on a bus and speaks its protocol.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use zbus::Connection;
use zbus::message::Message;
use zbus::zvariant::Value;

use crate::dbus::owner::{Answers, Owner};
use crate::dbus::private_bus::{Kill, PrivateBus};

const NAME: &str = "org.freedesktop.login1";
const PATH: &str = "/org/freedesktop/login1";
const MANAGER: &str = "org.freedesktop.login1.Manager";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

/// Which systemd it comes with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// It has no `RebootWithFlags`.
    V245,
    /// Without a flag, no lock holds for root.
    V252,
    /// Without a flag, every strong lock holds.
    #[default]
    V257,
}

/// What goes wrong when a method is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It does not answer.
    Silent,
    /// It answers after the caller has been told by the bus about somebody else.
    Slow,
    /// Not allowed.
    Denies,
    /// It leaves the bus without an answer.
    Dies,
    /// The bus ends.
    EndsBus,
}

/// What, who, why, mode, user, process.
pub type Lock = (&'static str, &'static str, &'static str, &'static str, u32, u32);

/// How it is, and what happens to it.
#[derive(Debug, Clone, Default)]
pub struct Script {
    pub version: Version,
    /// The kind of the shutdown that is under way.
    pub preparing: Option<&'static str>,
    /// What is scheduled, and when.
    pub scheduled: (&'static str, u64),
    pub locks: Vec<Lock>,
    /// What its locks are after each listing, with a signal that says so.
    pub then: Vec<Vec<Lock>>,
    /// What its locks are when a reboot is asked for, without a signal before.
    pub on_reboot: Vec<Vec<Lock>>,
    /// Whether these are gone once it has refused.
    pub are_brief: bool,
    /// It is asked for a shutdown by somebody else before this reboot.
    pub is_overtaken: bool,
    /// By the name of the method, or of the property that is asked for.
    pub fault: Option<(&'static str, Fault)>,
}

/// Runs until the bus is gone or it is dropped.
#[derive(Debug)]
pub struct FakeLogind {
    calls: Arc<Mutex<Vec<String>>>,
    _owner: Owner,
}

impl FakeLogind {
    /// Returns once it owns logind's name.
    pub fn start(bus: &PrivateBus, script: Script) -> Self {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let (seen, kill) = (Arc::clone(&calls), bus.kill());
        let playing = |connection| Playing { connection, script, kill, calls: seen };
        Self { calls, _owner: Owner::start(&bus.address, NAME, playing) }
    }

    /// The reboots that were asked for, and what was to be told to everybody.
    pub fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }
}

struct Playing {
    connection: Connection,
    script: Script,
    kill: Kill,
    calls: Arc<Mutex<Vec<String>>>,
}

impl Answers for Playing {
    async fn answer(&mut self, message: &Message) -> Option<()> {
        let header = message.header();
        let method = header.member()?.as_str();
        let asked = match method {
            "Get" => message.body().deserialize::<(String, String)>().unwrap().1,
            method => method.to_owned(),
        };
        if let Some((at, fault)) = self.script.fault
            && at == asked
        {
            self.note(message, &asked);
            match fault {
                Fault::Silent => return Some(()),
                Fault::Denies => {
                    let name = "org.freedesktop.DBus.Error.AccessDenied";
                    return self.connection.reply_error(&header, name, &"not you").await.ok();
                }
                Fault::Dies => return None,
                Fault::EndsBus => {
                    self.kill.now();
                    return None;
                }
                Fault::Slow => self.connection.request_name("org.example.Somebody").await.unwrap(),
            }
        }
        self.note(message, &asked);
        match method {
            "Get" => self.property(message, &asked).await,
            "ListInhibitors" => {
                self.connection.reply(&header, &self.script.locks).await.ok()?;
                if self.script.then.is_empty() {
                    return Some(());
                }
                self.script.locks = self.script.then.remove(0);
                self.signal().await
            }
            "SetWallMessage" => self.connection.reply(&header, &()).await.ok(),
            "Reboot" | "RebootWithFlags" => self.reboot(message, method).await,
            _ => Some(()),
        }
    }
}

impl Playing {
    fn note(&self, message: &Message, asked: &str) {
        let body = message.body();
        let call = match asked {
            "RebootWithFlags" => format!("{asked} {}", body.deserialize::<u64>().unwrap()),
            "Reboot" => format!("{asked} {}", body.deserialize::<bool>().unwrap()),
            "SetWallMessage" => {
                let (text, on): (String, bool) = body.deserialize().unwrap();
                format!("{asked} {text} {on}")
            }
            _ => return,
        };
        self.calls.lock().unwrap().push(call);
    }

    async fn property(&self, message: &Message, name: &str) -> Option<()> {
        let value = match name {
            "PreparingForShutdown" => Value::from(self.script.preparing.is_some()),
            "PreparingForShutdownWithMetadata" if self.script.version >= Version::V257 => {
                let kind = self.script.preparing.unwrap_or_default();
                Value::from(HashMap::from([("preparing", Value::from(true)), ("type", Value::from(kind))]))
            }
            "ScheduledShutdown" => Value::from(self.script.scheduled),
            "WallMessage" => Value::from("before"),
            "EnableWallMessages" => Value::from(false),
            _ => {
                let error = "org.freedesktop.DBus.Error.UnknownProperty";
                return self.connection.reply_error(&message.header(), error, &"no such property").await.ok();
            }
        };
        self.connection.reply(&message.header(), &value).await.ok()
    }

    async fn reboot(&mut self, message: &Message, method: &str) -> Option<()> {
        if !self.script.on_reboot.is_empty() {
            self.script.locks = self.script.on_reboot.remove(0);
        }
        let header = message.header();
        let refusal = self.refusal(message, method);
        if self.script.are_brief {
            self.script.locks.clear();
        }
        match refusal {
            None => self.connection.reply(&header, &()).await.ok(),
            Some(name) => self.connection.reply_error(&header, name, &"no").await.ok(),
        }
    }

    fn refusal(&mut self, message: &Message, method: &str) -> Option<&'static str> {
        let version = self.script.version;
        let flags: u64 = match method {
            "Reboot" => 0,
            _ if version == Version::V245 => return Some("org.freedesktop.DBus.Error.UnknownMethod"),
            _ => message.body().deserialize().unwrap(),
        };
        if version < Version::V257 && flags > 3 {
            return Some("org.freedesktop.DBus.Error.InvalidArgs");
        }
        let is_checked = flags & 1 != 0;
        let has = |mode| self.script.locks.iter().any(|lock| lock.3 == mode && lock.0.contains("shutdown"));
        if version < Version::V257 && is_checked && has("block") {
            return Some("org.freedesktop.DBus.Error.AccessDenied");
        }
        let is_held = has("block") || (is_checked && has("block-weak"));
        if version == Version::V257 && flags & 16 == 0 && is_held {
            return Some("org.freedesktop.login1.BlockedByInhibitorLock");
        }
        if self.script.is_overtaken {
            self.script.preparing = Some("poweroff");
            return Some("org.freedesktop.login1.OperationInProgress");
        }
        None
    }

    async fn signal(&self) -> Option<()> {
        let changed = HashMap::from([("BlockInhibited", Value::from("shutdown"))]);
        let body = (MANAGER, changed, Vec::<String>::new());
        self.connection.emit_signal(None::<&str>, PATH, PROPERTIES, "PropertiesChanged", &body).await.ok()
    }
}
