//! Daemon: its name on the bus, its clients, and the only transaction.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use futures_lite::StreamExt as _;
use ostree_ext::gio::Cancellable;
use tokio::sync::{mpsc, oneshot};
use zbus::Connection;
use zbus::fdo::DBusProxy;
use zbus::zvariant::Value;

use crate::active::{self, Active, Said};
use crate::error::Refusal;
use crate::experimental::ExperimentalObject;
use crate::faults::{Die, Faults, boundary};
use crate::stateroot::StaterootObject;
use crate::sysroot::SysrootObject;
use crate::work::{self, Work};
use crate::{NAME, Options, TOP, deployments};

/// Interval of the check for an idle daemon.
const LOOK: Duration = Duration::from_millis(100);

/// State shared by the D-Bus objects.
#[derive(Debug)]
pub(crate) struct Daemon {
    options: Options,
    connection: Connection,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    active: Option<Arc<Active>>,
    clients: HashMap<String, String>,
    idle_since: Instant,
    /// Deployments at the last reload of the sysroot.
    deployments: Vec<deployments::Described>,
    /// Time of the sysroot's last change at that reload.
    changed: SystemTime,
    stateroot: Option<String>,
}

/// Method call that makes a transaction.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) method: &'a str,
    pub(crate) sender: String,
    pub(crate) path: String,
    pub(crate) parameters: String,
}

pub(crate) async fn serve(options: &Options) -> anyhow::Result<()> {
    let connection = zbus::connection::Builder::system()?.build().await.context("connecting to the bus")?;
    let looked = deployments::look()?;
    let state = State {
        active: None,
        clients: HashMap::new(),
        idle_since: Instant::now(),
        deployments: looked.deployments,
        changed: deployments::changed()?,
        stateroot: looked.booted.clone(),
    };
    let daemon = Arc::new(Daemon {
        options: options.clone(),
        connection: connection.clone(),
        state: Mutex::new(state),
    });
    let objects = connection.object_server();
    objects.at(TOP, zbus::fdo::ObjectManager).await?;
    objects.at(format!("{TOP}/Sysroot"), SysrootObject { daemon: Arc::clone(&daemon) }).await?;
    for name in &looked.stateroots {
        let object = StaterootObject { daemon: Arc::clone(&daemon), name: name.clone() };
        objects.at(path_of(name), object).await?;
        objects.at(path_of(name), ExperimentalObject).await?;
    }
    let bus = DBusProxy::new(&connection).await?;
    let mut changes = bus.receive_name_owner_changed().await?;
    connection.request_name(NAME).await.context("taking the name")?;
    loop {
        tokio::select! {
            change = changes.next() => {
                let Some(change) = change else { return Ok(()) };
                let change = change.args()?;
                if change.new_owner().is_none() {
                    daemon.forget(change.name().as_str());
                }
            }
            () = tokio::time::sleep(LOOK) => {
                if daemon.is_idle() {
                    connection.release_name(NAME).await?;
                    return Ok(());
                }
            }
        }
    }
}

/// Object path of a stateroot. The names of stateroots here need no escaping.
pub(crate) fn path_of(stateroot: &str) -> String {
    format!("{TOP}/{}", stateroot.replace('-', "_"))
}

impl Daemon {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn faults_path(&self) -> &Path {
        &self.options.faults
    }

    pub(crate) fn faults(&self) -> Faults {
        Faults::load(self.faults_path())
    }

    /// Count a message, at which [`Faults::die_at`] may apply.
    pub(crate) fn boundary(&self) {
        boundary(self.faults_path());
    }

    fn is_idle(&self) -> bool {
        let mut state = self.state();
        if state.active.is_some() || !state.clients.is_empty() {
            state.idle_since = Instant::now();
        }
        self.options.idle().is_some_and(|idle| state.idle_since.elapsed() >= idle)
    }

    pub(crate) fn register(&self, sender: &str, id: &str) {
        self.state().clients.insert(sender.to_owned(), id.to_owned());
    }

    pub(crate) fn unregister(&self, sender: &str) {
        self.state().clients.remove(sender);
    }

    /// Remove the client that left the bus, and its transaction unless that was started.
    fn forget(&self, name: &str) {
        let mut state = self.state();
        state.clients.remove(name);
        if let Some(active) =
            state.active.as_ref().filter(|active| active.sender == name && !active.is_started())
        {
            active.abandon();
        }
    }

    /// Description of a caller, in the form that transactions report.
    fn describe(&self, sender: &str) -> String {
        match self.state().clients.get(sender) {
            Some(id) => format!("client(id:{id} dbus:{} uid:0)", sender.trim_start_matches(':')),
            None => format!("caller {sender}"),
        }
    }

    pub(crate) fn deployments(&self) -> Vec<deployments::Described> {
        self.state().deployments.clone()
    }

    pub(crate) fn booted(&self) -> Option<String> {
        self.state().stateroot.clone()
    }

    pub(crate) fn active(&self) -> Option<Arc<Active>> {
        self.state().active.clone()
    }

    /// Read the deployments again if the sysroot was changed, by the time that libostree's writers set, and signal them.
    /// A change of another program that sets no time stays unseen.
    pub(crate) async fn reload(&self) -> anyhow::Result<()> {
        if self.state().changed == deployments::changed()? {
            return Ok(());
        }
        self.reload_changed().await
    }

    /// Read the deployments again, and signal them.
    pub(crate) async fn reload_changed(&self) -> anyhow::Result<()> {
        let changed = deployments::changed()?;
        let looked = deployments::look()?;
        let default = Value::from(looked.deployments.first().cloned().unwrap_or_default());
        let described = Value::from(looked.deployments.clone());
        let stateroot = {
            let mut state = self.state();
            state.deployments = looked.deployments;
            state.changed = changed;
            state.stateroot.clone().unwrap_or_default()
        };
        self.tell(&path_of(&stateroot), "OS", HashMap::from([("DefaultDeployment", default)])).await;
        self.tell_of_sysroot(HashMap::from([("Deployments", described)])).await;
        Ok(())
    }

    /// Signal the active transaction, or its end.
    async fn tell_active(&self, address: &str, active: (&str, &str, &str)) {
        let changed =
            [("ActiveTransactionPath", Value::from(address)), ("ActiveTransaction", Value::from(active))];
        self.tell_of_sysroot(HashMap::from(changed)).await;
    }

    async fn tell_of_sysroot(&self, changed: HashMap<&str, Value<'_>>) {
        self.tell(&format!("{TOP}/Sysroot"), "Sysroot", changed).await;
    }

    async fn tell(&self, path: &str, interface: &str, changed: HashMap<&str, Value<'_>>) {
        let body = (format!("{NAME}.{interface}"), changed, Vec::<&str>::new());
        let properties = "org.freedesktop.DBus.Properties";
        let none = None::<&str>;
        drop(self.connection.emit_signal(none, path, properties, "PropertiesChanged", &body).await);
    }

    /// Make a transaction of a call, or return the active one if its call is equal.
    pub(crate) async fn begin(self: &Arc<Self>, call: Call<'_>, work: Work) -> Result<String, Refusal> {
        self.boundary();
        self.faults().reach(self.faults_path(), Die::AtCall);
        if let Some(text) = self.faults().refuse {
            return Err(Refusal::failed(text));
        }
        if let Some(active) = self.active() {
            let is_same = active.method == call.method && active.parameters == call.parameters;
            return if is_same {
                Ok(self.address())
            } else {
                let text = format!(
                    "Transaction in progress: {}\n You can cancel the current transaction with `rpm-ostree cancel`",
                    active.title()
                );
                Err(Refusal::busy(text))
            };
        }
        let title = work.title_of_creation();
        let (start, started) = std::sync::mpsc::channel();
        let (say, said) = mpsc::unbounded_channel::<Said>();
        let (locked, is_locked) = oneshot::channel();
        let cancellable = Cancellable::new();
        let worker = work::Worker {
            work,
            faults: self.faults_path().to_owned(),
            say,
            cancellable: cancellable.clone(),
        };
        std::thread::spawn(move || worker.run(locked, &started));
        is_locked.await.map_err(|_| Refusal::own("cannot open the sysroot".into()))??;
        let client = self.describe(&call.sender);
        let names = (call.method, call.sender.as_str(), call.path.as_str());
        let faults = self.faults_path().to_owned();
        let active = Arc::new(Active::new(title, names, call.parameters, client, faults, start, cancellable));
        let listener =
            active::bind(&self.options.socket).map_err(|error| Refusal::failed(error.to_string()))?;
        self.state().active = Some(Arc::clone(&active));
        tokio::spawn(Arc::clone(&active).speak(Arc::clone(self), said));
        self.tell_active(&self.address(), names).await;
        let (daemon, socket) = (Arc::clone(self), self.options.socket.clone());
        tokio::spawn(async move {
            Arc::clone(&active).listen(socket, listener).await;
            daemon.state().active = None;
            daemon.tell_active("", ("", "", "")).await;
        });
        self.boundary();
        Ok(self.address())
    }

    pub(crate) fn address(&self) -> String {
        let socket = self.options.announce.as_ref().unwrap_or(&self.options.socket);
        format!("unix:path={}", socket.display())
    }
}
