//! `…/Sysroot`: clients, reloads and the list of deployments.
#![allow(clippy::unused_self, reason = "methods of a D-Bus object")]
#![allow(clippy::needless_pass_by_value, reason = "arguments are read from a message")]

use std::collections::HashMap;
use std::sync::Arc;

use zbus::interface;
use zbus::message::Header;
use zbus::zvariant::{ObjectPath, OwnedObjectPath, OwnedValue};

use crate::daemon::{Daemon, path_of};
use crate::deployments::Described;
use crate::error::Refusal;
use crate::faults::Die;
use crate::options::Dict;

pub(crate) struct SysrootObject {
    pub(crate) daemon: Arc<Daemon>,
}

#[interface(name = "org.projectatomic.rpmostree1.Sysroot")]
impl SysrootObject {
    fn register_client(&self, options: HashMap<String, OwnedValue>, #[zbus(header)] header: Header<'_>) {
        self.daemon.boundary();
        self.daemon.faults().reach(self.daemon.faults_path(), Die::AtRegister);
        let id = Dict(options).text("id").unwrap_or_default();
        self.daemon.register(header.sender().map_or("", |sender| sender.as_str()), &id);
        self.daemon.boundary();
    }

    fn unregister_client(&self, options: HashMap<String, OwnedValue>, #[zbus(header)] header: Header<'_>) {
        drop(options);
        self.daemon.unregister(header.sender().map_or("", |sender| sender.as_str()));
    }

    async fn reload(&self) -> Result<(), Refusal> {
        self.daemon.boundary();
        self.daemon.reload().await?;
        self.daemon.boundary();
        Ok(())
    }

    async fn reload_config(&self) -> Result<(), Refusal> {
        self.reload().await
    }

    #[zbus(name = "GetOS", out_args("object_path"))]
    fn get_os(&self, name: String) -> Result<OwnedObjectPath, Refusal> {
        if name.is_empty() {
            // The real daemon aborts here too, though not on purpose.
            std::process::abort();
        }
        if self.daemon.booted().as_ref() != Some(&name) {
            return Err(Refusal::not_found(format!("OS name \"{name}\" not found")));
        }
        object_path(&path_of(&name))
            .ok_or_else(|| Refusal::own(format!("{name} is not valid in an object path")))
    }

    #[zbus(property)]
    fn booted(&self) -> OwnedObjectPath {
        let path = self.daemon.booted().map_or_else(|| "/".to_owned(), |name| path_of(&name));
        object_path(&path).unwrap_or_default()
    }

    #[zbus(property)]
    fn path(&self) -> String {
        "/".to_owned()
    }

    #[zbus(property)]
    fn active_transaction(&self) -> (String, String, String) {
        let active = self.daemon.active();
        active
            .map(|active| (active.method.clone(), active.sender.clone(), active.path.clone()))
            .unwrap_or_default()
    }

    #[zbus(property)]
    fn active_transaction_path(&self) -> String {
        self.daemon.active().map(|_| self.daemon.address()).unwrap_or_default()
    }

    #[zbus(property)]
    fn automatic_update_policy(&self) -> String {
        "none".to_owned()
    }

    #[zbus(property)]
    fn deployments(&self) -> Vec<Described> {
        self.daemon.deployments()
    }
}

fn object_path(path: &str) -> Option<OwnedObjectPath> {
    ObjectPath::try_from(path).ok().map(|path| path.to_owned().into())
}
