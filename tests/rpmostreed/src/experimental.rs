//! `…/OSNAME`: the experimental interface.
#![allow(clippy::unused_self, reason = "methods of a D-Bus object")]
#![allow(clippy::needless_pass_by_value, reason = "arguments are read from a message")]

use std::collections::HashMap;

use zbus::interface;
use zbus::zvariant::OwnedValue;

use crate::error::Refusal;

pub(crate) struct ExperimentalObject;

#[interface(name = "org.projectatomic.rpmostree1.OSExperimental")]
impl ExperimentalObject {
    #[zbus(out_args("result"))]
    fn moo(&self, utf8: bool) -> String {
        if utf8 { "🐄".to_owned() } else { "moo".to_owned() }
    }

    #[zbus(out_args("transaction_address"))]
    fn live_fs(&self, options: HashMap<String, OwnedValue>) -> Result<String, Refusal> {
        drop(options);
        Err(Refusal::unsupported("LiveFs"))
    }

    fn download_packages(&self, queries: Vec<String>, source: String) -> Result<(), Refusal> {
        drop((queries, source));
        Err(Refusal::unsupported("DownloadPackages"))
    }
}
