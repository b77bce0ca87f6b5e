//! A host that OSTree booted, without a machine that boots: staging, binding at shutdown, activation and
//! recovery as the executable does them, with the real libostree and the real `ostree admin finalize-staged`.
//!
//! The executable is run where all that it looks at is as on such a host: its root is a deployment, its kernel
//! command line is the boot entry's, its boot ID changes with each boot. What is missing is systemd: units are run
//! by the tests in the order in which systemd runs them, and a reboot that is asked for is none. Needs root.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test reports by panicking"
)]

#[path = "../sysroot/boot.rs"]
mod boot;
#[path = "../model/mod.rs"]
#[expect(dead_code, unused_imports, reason = "plain trees have a use for the rest of the model")]
mod model;

#[path = "../strace/mod.rs"]
#[expect(dead_code, reason = "runs on a host are traced there")]
mod strace;

mod bench;
mod bind_fails;
mod boot_menu;
mod bypass;
mod config;
mod first_boot;
mod foreign;
mod generations;
mod health;
mod host;
mod kills;
mod updates;
