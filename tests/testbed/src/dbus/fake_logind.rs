//! Scripted logind: owns logind's name on a bus and speaks its protocol.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use zbus::Connection;
use zbus::message::Message;
use zbus::zvariant::Value;

use crate::dbus::owner::{CallHandler, Owner};
use crate::dbus::private_bus::{Kill, PrivateBus};

const NAME: &str = "org.freedesktop.login1";
const PATH: &str = "/org/freedesktop/login1";
const MANAGER: &str = "org.freedesktop.login1.Manager";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

/// systemd version whose logind is imitated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Has no `RebootWithFlags`.
    V245,
    /// Without a flag, root is not stopped by any lock.
    V252,
    /// Without a flag, every strong lock stops a reboot.
    #[default]
    V257,
}

/// Fault when a method is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No answer.
    Silent,
    /// An answer after a signal about another name on the bus.
    Slow,
    /// Access is denied.
    Denies,
    /// logind leaves the bus without an answer.
    Dies,
    /// The bus ends.
    EndsBus,
}

/// Inhibitor lock as `ListInhibitors` returns it: what, who, why, mode, user ID, process ID.
pub type Lock = (&'static str, &'static str, &'static str, &'static str, u32, u32);

/// State and behaviour of the fake.
#[derive(Debug, Clone, Default)]
pub struct Script {
    pub version: Version,
    /// Kind of the shutdown in progress.
    pub preparing: Option<&'static str>,
    /// Type and time of the scheduled shutdown.
    pub scheduled: (&'static str, u64),
    pub locks: Vec<Lock>,
    /// Locks after each listing, with a signal about the change.
    pub later_locks: Vec<Vec<Lock>>,
    /// Locks when a reboot is requested, without a signal before.
    pub locks_on_reboot: Vec<Vec<Lock>>,
    /// True if those locks are released after the refusal.
    pub are_released_on_refusal: bool,
    /// True if another client requests a shutdown before this reboot.
    pub is_overtaken: bool,
    /// Name of the method, or of the property that is read, and its fault.
    pub fault: Option<(&'static str, Fault)>,
}

/// Scripted logind that runs until the bus ends or this value is dropped.
#[derive(Debug)]
pub struct FakeLogind {
    calls: Arc<Mutex<Vec<String>>>,
    _owner: Owner,
}

impl FakeLogind {
    /// Start the fake, and return once it owns logind's name.
    pub fn start(bus: &PrivateBus, script: Script) -> Self {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let (seen, kill) = (Arc::clone(&calls), bus.kill());
        let handler = |connection| Handler { connection, script, kill, calls: seen };
        Self { calls, _owner: Owner::start(&bus.address, NAME, handler) }
    }

    /// Requested reboots, and the wall messages set before them.
    pub fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }
}

struct Handler {
    connection: Connection,
    script: Script,
    kill: Kill,
    calls: Arc<Mutex<Vec<String>>>,
}

impl CallHandler for Handler {
    async fn answer(&mut self, message: &Message) -> Option<()> {
        let header = message.header();
        let method = header.member()?.as_str();
        let called = match method {
            "Get" => message.body().deserialize::<(String, String)>().unwrap().1,
            method => method.to_owned(),
        };
        if let Some((at, fault)) = self.script.fault
            && at == called
        {
            self.note(message, &called);
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
                Fault::Slow => self.connection.request_name("org.example.Another").await.unwrap(),
            }
        }
        self.note(message, &called);
        match method {
            "Get" => self.property(message, &called).await,
            "ListInhibitors" => {
                self.connection.reply(&header, &self.script.locks).await.ok()?;
                if self.script.later_locks.is_empty() {
                    return Some(());
                }
                self.script.locks = self.script.later_locks.remove(0);
                self.signal().await
            }
            "SetWallMessage" => self.connection.reply(&header, &()).await.ok(),
            "Reboot" | "RebootWithFlags" => self.reboot(message, method).await,
            _ => Some(()),
        }
    }
}

impl Handler {
    fn note(&self, message: &Message, called: &str) {
        let body = message.body();
        let call = match called {
            "RebootWithFlags" => format!("{called} {}", body.deserialize::<u64>().unwrap()),
            "Reboot" => format!("{called} {}", body.deserialize::<bool>().unwrap()),
            "SetWallMessage" => {
                let (text, on): (String, bool) = body.deserialize().unwrap();
                format!("{called} {text} {on}")
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
        if !self.script.locks_on_reboot.is_empty() {
            self.script.locks = self.script.locks_on_reboot.remove(0);
        }
        let header = message.header();
        let refusal = self.refusal(message, method);
        if self.script.are_released_on_refusal {
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
