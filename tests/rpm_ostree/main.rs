//! A host whose images and packages are rpm-ostreed's: the executable on the host that `booted` tests have, beside a bus
//! and a daemon that speaks the real one's protocol on the real sysroot.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test reports by panicking"
)]

#[path = "../sysroot/boot.rs"]
#[expect(dead_code, reason = "boot entries are looked at there")]
mod boot;
#[path = "../booted/config.rs"]
#[allow(dead_code, reason = "health is judged there")]
mod config;
#[path = "../booted/host.rs"]
#[allow(dead_code, reason = "it does more there")]
mod host;
#[path = "../model/mod.rs"]
#[expect(dead_code, unused_imports, reason = "plain trees have a use for the rest of the model")]
mod model;

#[path = "../strace/mod.rs"]
#[expect(dead_code, reason = "runs on a host are traced there")]
mod strace;

mod beside;
mod bus;
mod client;
mod concurrency;
mod daemon;
#[path = "../services/dbus_daemon.rs"]
mod dbus_daemon;
mod deaths;
mod failures;
mod introspection;
mod kills;
mod leaks;
mod lifecycle;
mod meddling;
mod packages;
mod repeated;
mod stranger;
mod updates;
