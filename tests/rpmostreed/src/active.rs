//! Active transaction: created, started, or finished with peers still connected.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_lite::StreamExt as _;
use ostree_ext::gio::Cancellable;
use ostree_ext::prelude::CancellableExt as _;
use tokio::net::UnixListener;
use tokio::sync::{Notify, mpsc};
use zbus::zvariant::Value;
use zbus::{Connection, MessageStream};

use crate::daemon::Daemon;
use crate::faults::{Die, Faults, boundary};
use crate::transaction::{INTERFACE, TransactionObject};

/// Longest time that a connected peer delays the end of a transaction.
const LINGER: Duration = Duration::from_secs(30);

/// Progress of the work, as signalled to peers.
#[derive(Debug, Clone)]
pub(crate) enum Said {
    Title(String),
    /// The deployments have changed. Not a signal of the transaction.
    Reload,
    Message(String),
    TaskBegin(String),
    TaskEnd(String),
    ProgressEnd,
    Finished(bool, String),
}

/// Transaction.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) method: String,
    pub(crate) sender: String,
    pub(crate) path: String,
    /// All arguments of the method call; an equal call joins the transaction.
    pub(crate) parameters: String,
    /// Description of the caller.
    pub(crate) client: String,
    pub(crate) faults: PathBuf,
    pub(crate) cancellable: Cancellable,
    state: Mutex<State>,
    /// Notified when a signal was sent, and when the transaction ends.
    pub(crate) news: Notify,
    /// Notified when a peer disconnects, and when the transaction ends.
    left: Notify,
}

#[derive(Debug)]
struct State {
    title: String,
    /// Dropped if the transaction is never to start.
    start: Option<std::sync::mpsc::Sender<()>>,
    is_started: bool,
    finished: Option<(bool, String)>,
    peers: Vec<(u64, Connection)>,
    /// Number of peers so far.
    accepted: u64,
}

impl Active {
    pub(crate) fn new(
        title: &str,
        call: (&str, &str, &str),
        parameters: String,
        client: String,
        faults: PathBuf,
        start: std::sync::mpsc::Sender<()>,
        cancellable: Cancellable,
    ) -> Self {
        let state = State {
            title: title.to_owned(),
            start: Some(start),
            is_started: false,
            finished: None,
            peers: Vec::new(),
            accepted: 0,
        };
        let (method, sender, path) = call;
        Self {
            method: method.to_owned(),
            sender: sender.to_owned(),
            path: path.to_owned(),
            parameters,
            client,
            faults,
            cancellable,
            state: Mutex::new(state),
            news: Notify::new(),
            left: Notify::new(),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn title(&self) -> String {
        self.state().title.clone()
    }

    pub(crate) fn is_started(&self) -> bool {
        self.state().is_started
    }

    pub(crate) fn finished(&self) -> Option<(bool, String)> {
        self.state().finished.clone()
    }

    /// Start the transaction; returns false if it was started before.
    pub(crate) fn start(&self) -> bool {
        let mut state = self.state();
        if state.is_started {
            return false;
        }
        state.is_started = true;
        state.start.as_ref().is_some_and(|start| start.send(()).is_ok())
    }

    /// Drop a transaction that was not started and whose caller has left the bus.
    pub(crate) fn abandon(&self) {
        self.state().start = None;
        self.left.notify_one();
    }

    pub(crate) fn cancel(&self) {
        if !Faults::load(&self.faults).deaf {
            self.cancellable.cancel();
        }
    }

    fn is_over(&self) -> bool {
        let state = self.state();
        state.start.is_none() || state.finished.is_some() && state.peers.is_empty()
    }

    /// Forward the progress of the work to every connected peer.
    pub(crate) async fn speak(self: Arc<Self>, daemon: Arc<Daemon>, mut said: mpsc::UnboundedReceiver<Said>) {
        while let Some(said) = said.recv().await {
            if matches!(said, Said::Reload) {
                if let Err(error) = daemon.reload_changed().await {
                    eprintln!("reading the deployments: {error:#}");
                }
                continue;
            }
            if Faults::load(&self.faults).mute {
                continue;
            }
            match &said {
                Said::Title(title) => self.state().title.clone_from(title),
                Said::Finished(success, text) => {
                    Faults::load(&self.faults).reach(&self.faults, Die::BeforeFinished);
                    self.state().finished = Some((*success, text.clone()));
                }
                _ => {}
            }
            let peers = self.state().peers.clone();
            for (_, peer) in peers {
                boundary(&self.faults);
                tell(&peer, &said).await;
                boundary(&self.faults);
            }
            self.news.notify_waiters();
            self.left.notify_one();
        }
    }

    /// Accept peers on the socket until the transaction has ended.
    pub(crate) async fn listen(self: Arc<Self>, socket: PathBuf, listener: UnixListener) {
        let mut ended_at = None;
        while !self.is_over() {
            if ended_at.is_none() && self.finished().is_some() {
                ended_at = Some(tokio::time::Instant::now() + self.linger());
            }
            let end = ended_at.unwrap_or_else(|| tokio::time::Instant::now() + Duration::from_secs(3600));
            tokio::select! {
                accepted = listener.accept() => {
                    if let Ok((stream, _)) = accepted {
                        Faults::load(&self.faults).reach(&self.faults, Die::BeforeStart);
                        tokio::spawn(Arc::clone(&self).serve(stream));
                    }
                }
                () = self.left.notified() => {}
                () = tokio::time::sleep_until(end) => {
                    let peers = std::mem::take(&mut self.state().peers);
                    for (_, peer) in peers {
                        drop(peer.close().await);
                    }
                }
            }
        }
        drop(std::fs::remove_file(socket));
    }

    fn linger(&self) -> Duration {
        match Faults::load(&self.faults).linger {
            0 => LINGER,
            milliseconds => Duration::from_millis(milliseconds),
        }
    }

    /// Serve one peer until it disconnects.
    async fn serve(self: Arc<Self>, stream: tokio::net::UnixStream) {
        let object = TransactionObject { active: Arc::clone(&self) };
        let built = async {
            let builder = zbus::connection::Builder::unix_stream(stream);
            builder.server(zbus::Guid::generate())?.p2p().serve_at("/", object)?.build().await
        };
        let connection = match built.await {
            Ok(connection) => connection,
            Err(error) => return eprintln!("rejecting a peer: {error}"),
        };
        let mut messages = MessageStream::from(&connection);
        let number = {
            let mut state = self.state();
            state.accepted += 1;
            let number = state.accepted;
            state.peers.push((number, connection.clone()));
            number
        };
        while let Some(Ok(_)) = messages.next().await {}
        self.state().peers.retain(|(other, _)| *other != number);
        self.left.notify_one();
    }
}

/// Listen on the socket, to which every user may connect.
pub(crate) fn bind(socket: &std::path::Path) -> std::io::Result<UnixListener> {
    drop(std::fs::remove_file(socket));
    let listener = UnixListener::bind(socket)?;
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o666))?;
    Ok(listener)
}

pub(crate) async fn tell(peer: &Connection, said: &Said) {
    let none = None::<&str>;
    let told = match said {
        Said::Reload => return,
        Said::Title(title) => {
            let changed = (INTERFACE, HashMap::from([("Title", Value::from(title))]), Vec::<&str>::new());
            peer.emit_signal(none, "/", "org.freedesktop.DBus.Properties", "PropertiesChanged", &changed)
                .await
        }
        Said::Message(text) => peer.emit_signal(none, "/", INTERFACE, "Message", text).await,
        Said::TaskBegin(text) => peer.emit_signal(none, "/", INTERFACE, "TaskBegin", text).await,
        Said::TaskEnd(text) => peer.emit_signal(none, "/", INTERFACE, "TaskEnd", text).await,
        Said::ProgressEnd => peer.emit_signal(none, "/", INTERFACE, "ProgressEnd", &()).await,
        Said::Finished(success, text) => {
            peer.emit_signal(none, "/", INTERFACE, "Finished", &(*success, text)).await
        }
    };
    // The peer may have disconnected: its loss is no error.
    drop(told);
}
