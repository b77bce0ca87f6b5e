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

mod bench;
mod boot_menu;
mod bypass;
mod finalize_fails;
mod first_boot;
mod foreign;
mod generations;
mod health;
mod kills;
mod rpm_ostree;
mod updates;
