//! The daemon as it is on a host: the executable on the host that `booted` tests have, with a logind that notes what it
//! is asked, and sources that change their mind. A reboot is one of that host's: what is shut down binds, what boots has
//! a new boot ID, and a new daemon.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test reports by panicking"
)]

mod agent;
#[path = "../sysroot/boot.rs"]
#[expect(dead_code, reason = "boot entries are looked at there")]
mod boot;
mod cluster;
#[path = "../booted/config.rs"]
#[allow(dead_code, reason = "health is judged there")]
mod config;
#[path = "../services/dbus_daemon.rs"]
mod dbus_daemon;
mod deployment;
mod directory;
#[path = "../reboot/fake.rs"]
#[expect(dead_code, reason = "its faults are for those who reboot")]
mod fake;
#[path = "../services/fake.rs"]
#[expect(dead_code, reason = "its faults are for those who ask for jobs")]
mod fake_systemd;
mod faults;
mod handover;
mod history;
#[path = "../booted/host.rs"]
#[allow(dead_code, reason = "it does more there")]
mod host;
mod idle;
mod mcd;
#[path = "../model/mod.rs"]
#[expect(dead_code, unused_imports, reason = "plain trees have a use for the rest of the model")]
mod model;
#[path = "../services/owner.rs"]
mod owner;
mod permissions;
mod private_bus;
#[path = "../strace/mod.rs"]
#[expect(dead_code, reason = "runs on a host are traced there")]
mod strace;
mod tls;
