//! Another client of the daemon, which interferes.

use std::collections::HashMap;

use futures_lite::StreamExt as _;
use rpmostreed::{NAME, TOP};
use testbed::booted::host::Host;
use zbus::zvariant::Value;
use zbus::{Connection, MessageStream};

use crate::rpm_ostree::client::DaemonHost;
use crate::rpm_ostree::peers::bus::{address, socket};

/// The other client's connection to the bus.
pub(crate) struct Stranger {
    connection: Connection,
}

/// The other client's connection to a transaction.
pub(crate) struct Peer {
    connection: Connection,
    messages: MessageStream,
}

impl Stranger {
    pub(crate) async fn connect(fixture: &DaemonHost) -> Self {
        Self::connect_to(&fixture.host).await
    }

    pub(crate) async fn connect_to(host: &Host) -> Self {
        let address = address(host);
        let connection = zbus::connection::Builder::address(address.as_str()).unwrap().build().await.unwrap();
        Self { connection }
    }

    pub(crate) fn name(&self) -> String {
        self.connection.unique_name().unwrap().to_string()
    }

    /// Has the daemon stage the booted commit with another kernel argument, as soon as the daemon is idle.
    pub(crate) async fn race(&self, host: &Host) -> (bool, String) {
        let (none, added) = (Vec::<&str>::new(), vec!["foreign"]);
        let parameters =
            ("root=LABEL=root rw foreign", &added, &none, &none, HashMap::<&str, Value<'_>>::new());
        let (path, interface) = (format!("{TOP}/fedora_coreos"), format!("{NAME}.OS"));
        loop {
            let called = self.connection.call_method(
                Some(NAME),
                path.as_str(),
                Some(interface.as_str()),
                "KernelArgs",
                &parameters,
            );
            match called.await {
                Ok(_) => break,
                Err(zbus::Error::MethodError(name, ..)) if name.ends_with(".Code26") => {}
                Err(error) => panic!("{error}"),
            }
        }
        // The address in the reply is valid on the host only.
        let mut peer = Peer::connect(&format!("unix:path={}", socket(host).display())).await;
        peer.start().await;
        peer.finished().await
    }

    /// Has the daemon make the previous deployment the default.
    pub(crate) async fn roll_back(&self, host: &Host) -> (bool, String) {
        let (path, interface) = (format!("{TOP}/fedora_coreos"), format!("{NAME}.OS"));
        let (path, interface) = (path.as_str(), Some(interface.as_str()));
        let options = HashMap::<&str, Value<'_>>::new();
        self.connection.call_method(Some(NAME), path, interface, "Rollback", &options).await.unwrap();
        let mut peer = Peer::connect(&format!("unix:path={}", socket(host).display())).await;
        peer.start().await;
        peer.finished().await
    }

    /// Requests a package change without packages. Returns the transaction's address.
    pub(crate) async fn change_nothing(&self) -> String {
        let none = Vec::<&str>::new();
        let parameters = (HashMap::<&str, Value<'_>>::new(), &none, &none);
        let path = format!("{TOP}/fedora_coreos");
        let interface = format!("{NAME}.OS");
        let called = self.connection.call_method(
            Some(NAME),
            path.as_str(),
            Some(interface.as_str()),
            "PkgChange",
            &parameters,
        );
        called.await.unwrap().body().deserialize().unwrap()
    }
}

impl Peer {
    pub(crate) async fn connect(address: &str) -> Self {
        let builder = zbus::connection::Builder::address(address).unwrap().p2p();
        let connection = builder.build().await.unwrap();
        let messages = MessageStream::from(&connection);
        Self { connection, messages }
    }

    pub(crate) async fn start(&self) -> bool {
        self.call("Start").await.body().deserialize().unwrap()
    }

    /// The transaction's title: `new-deployment` until it has started.
    pub(crate) async fn title(&self) -> String {
        let properties = Some("org.freedesktop.DBus.Properties");
        let name = (format!("{NAME}.Transaction"), "Title");
        let got = self.connection.call_method(None::<&str>, "/", properties, "Get", &name).await.unwrap();
        let value: zbus::zvariant::OwnedValue = got.body().deserialize().unwrap();
        value.try_into().unwrap()
    }

    pub(crate) async fn introspect(&self) -> String {
        let interface = Some("org.freedesktop.DBus.Introspectable");
        let told = self.connection.call_method(None::<&str>, "/", interface, "Introspect", &()).await;
        told.unwrap().body().deserialize().unwrap()
    }

    pub(crate) async fn cancel(&self) {
        self.call("Cancel").await;
    }

    async fn call(&self, method: &str) -> zbus::Message {
        let interface = format!("{NAME}.Transaction");
        self.connection.call_method(None::<&str>, "/", Some(interface.as_str()), method, &()).await.unwrap()
    }

    /// Waits for the result, and stays connected.
    pub(crate) async fn finished(&mut self) -> (bool, String) {
        loop {
            let message = self.messages.next().await.unwrap().unwrap();
            if message.header().member().is_some_and(|member| member == "Finished") {
                return message.body().deserialize().unwrap();
            }
        }
    }
}
