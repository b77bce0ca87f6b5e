//! Clients of a recording: their calls are sent again, and each message of the daemon is compared with the recorded one.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use futures_lite::StreamExt as _;
use rpmostreed::{NAME, TOP};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use zbus::message::{Message, Type};
use zbus::{Connection, MatchRule, MessageStream};

use super::message::{Comparable, Line, body};
use crate::rpm_ostree::client::DaemonHost;
use crate::rpm_ostree::peers::bus::{address, socket};

/// Time limit of a message that is expected.
const LIMIT: Duration = Duration::from_secs(30);

type Reply = JoinHandle<zbus::Result<Message>>;

/// State of a repeated recording.
pub(super) struct Replay<'h> {
    fixture: &'h DaemonHost,
    /// Recorded references of images, and those of the images that stand for them.
    references: HashMap<String, String>,
    /// Connections to the bus, by the recorded names.
    clients: HashMap<String, Connection>,
    peers: HashMap<String, Peer>,
    /// Calls without an answer so far, by client or link and by serial number.
    calls: HashMap<(String, u32), Reply>,
}

/// Connection to a transaction's socket.
struct Peer {
    connection: Connection,
    signals: Signals,
}

/// Signals of one connection.
struct Signals {
    stream: MessageStream,
    /// True while the task of a layer runs that is not in the recording, or of one that began before the connection.
    drops_end: bool,
}

impl Signals {
    fn new(stream: MessageStream) -> Self {
        Self { stream, drops_end: true }
    }

    /// Return the next signal that is in recordings.
    async fn next(&mut self, references: &HashMap<String, String>, place: &str) -> Comparable {
        loop {
            let message = timeout(LIMIT, self.stream.next()).await;
            let message = message.unwrap_or_else(|_| panic!("{place}: no signal arrives")).unwrap().unwrap();
            if message.message_type() != Type::Signal {
                continue;
            }
            let signal = Comparable::of_message(&message, true, references);
            match signal.name.as_str() {
                "TaskBegin" => {
                    let text: String = message.body().deserialize().unwrap();
                    self.drops_end = text.starts_with('[') && !text.starts_with("[1/");
                    if !self.drops_end {
                        return signal;
                    }
                }
                "TaskEnd" if self.drops_end => {}
                "TaskEnd" => {
                    self.drops_end = true;
                    return signal;
                }
                _ => return signal,
            }
        }
    }
}

impl<'h> Replay<'h> {
    pub(super) fn new(fixture: &'h DaemonHost) -> Self {
        Self {
            fixture,
            references: HashMap::new(),
            clients: HashMap::new(),
            peers: HashMap::new(),
            calls: HashMap::new(),
        }
    }

    /// Use an image of this host in place of a recorded one.
    pub(super) fn substitute(&mut self, recorded: String, own: String) {
        self.references.insert(recorded, own);
    }

    pub(super) async fn run(&mut self, name: &str) {
        let file = format!("{}/tests/fixtures/rpm-ostreed/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
        let text = fs::read_to_string(Path::new(&file)).unwrap();
        // Held to the end of the recording.
        let _lock = (name == "lock-held").then(|| self.locked());
        let watcher = self.connect().await;
        let rule = MatchRule::builder().msg_type(Type::Signal).path_namespace(TOP).unwrap();
        let rule = rule.interface("org.freedesktop.DBus.Properties").unwrap().build();
        let stream = MessageStream::for_match_rule(rule, &watcher, Some(4096)).await.unwrap();
        let mut bus = Signals::new(stream);
        for (number, line) in text.lines().enumerate() {
            let line: Line = serde_json::from_str(line).unwrap();
            let place = format!("{name}.jsonl:{}", number + 1);
            self.step(&line, &mut bus, &place).await;
        }
    }

    async fn step(&mut self, line: &Line, bus: &mut Signals, place: &str) {
        match (line.event.as_deref(), line.from.as_str(), line.kind.as_str()) {
            (Some("connected"), ..) => {
                let address = format!("unix:path={}", socket(&self.fixture.host).display());
                let builder = zbus::connection::Builder::address(address.as_str()).unwrap().p2p();
                let connection = builder.max_queued(4096).build().await.unwrap();
                let signals = Signals::new(MessageStream::from(&connection));
                self.peers.insert(line.link.clone(), Peer { connection, signals });
            }
            (Some("killed"), ..) => self.kill_daemon().await,
            (Some("exited"), ..) => self.wait_for_exit().await,
            (Some(_), ..) => {
                let peer = self.peers.remove(&line.link).unwrap();
                peer.connection.close().await.unwrap();
            }
            (None, "client", _) => self.call(line).await,
            (None, _, "signal") => {
                let expected = Comparable::of_recording(line, &self.references);
                let signals = match self.peers.get_mut(&line.link) {
                    Some(peer) => &mut peer.signals,
                    None => bus,
                };
                assert_eq!(signals.next(&self.references, place).await, expected, "{place}");
            }
            (None, ..) => self.compare_answer(line, place).await,
        }
    }

    /// Send a call of a recording; its answer is compared later.
    async fn call(&mut self, line: &Line) {
        let (caller, connection, destination) = if let Some(peer) = self.peers.get(&line.link) {
            (line.link.clone(), peer.connection.clone(), None)
        } else {
            let name = line.sender.clone().unwrap();
            if !self.clients.contains_key(&name) {
                let connection = self.connect().await;
                self.clients.insert(name.clone(), connection);
            }
            (name.clone(), self.clients[&name].clone(), Some(NAME))
        };
        let body = body(line, &self.references);
        let (path, interface, member) = (line.path.clone(), line.interface.clone(), line.member.clone());
        let reply = tokio::spawn(async move {
            let (path, interface, member) = (path.as_str(), Some(interface.as_str()), member.as_str());
            match body {
                Some(body) => connection.call_method(destination, path, interface, member, &body).await,
                None => connection.call_method(destination, path, interface, member, &()).await,
            }
        });
        self.calls.insert((caller, line.serial), reply);
    }

    async fn compare_answer(&mut self, line: &Line, place: &str) {
        let caller = if line.link == "bus" { line.sender.clone().unwrap() } else { line.link.clone() };
        let reply = self.calls.remove(&(caller, line.reply_to)).expect("the call was recorded");
        let reply = timeout(LIMIT, reply).await.expect("the daemon answers").unwrap();
        let message = match reply {
            Ok(message) | Err(zbus::Error::MethodError(_, _, message)) => message,
            Err(error) => panic!("{place}: {error}"),
        };
        let answer = Comparable::of_message(&message, line.args.is_some(), &self.references);
        assert_eq!(answer, Comparable::of_recording(line, &self.references), "{place}");
    }

    async fn connect(&self) -> Connection {
        let address = address(&self.fixture.host);
        zbus::connection::Builder::address(address.as_str()).unwrap().build().await.unwrap()
    }

    /// Kill the daemon, whose peers end with it. Of its signals on the bus nothing more is expected.
    async fn kill_daemon(&mut self) {
        let bus = zbus::fdo::DBusProxy::new(&self.connect().await).await.unwrap();
        let pid = bus.get_connection_unix_process_id(NAME.try_into().unwrap()).await.unwrap();
        let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        self.peers.clear();
        self.wait_for_exit().await;
    }

    /// Wait until the daemon has given up its name.
    async fn wait_for_exit(&mut self) {
        // The daemon does not exit while it has clients.
        self.clients.clear();
        let bus = zbus::fdo::DBusProxy::new(&self.connect().await).await.unwrap();
        let mut changes = bus.receive_name_owner_changed().await.unwrap();
        while bus.name_has_owner(NAME.try_into().unwrap()).await.unwrap() {
            timeout(LIMIT, changes.next()).await.expect("the daemon ends");
        }
    }

    fn locked(&self) -> fs::File {
        let file = self.fixture.host.sysroot().join("ostree/lock");
        let lock = fs::File::options().write(true).create(true).truncate(false).open(file).unwrap();
        rustix::fs::fcntl_lock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
        lock
    }
}
