//! A host booted by OSTree, simulated in a mount namespace: staging, finalizing at shutdown, activation and
//! recovery, run by the executable with the real libostree and the real `ostree admin finalize-staged`.
//!
//! The executable sees a booted host: its root is a deployment, its kernel command line is the boot entry's, and its
//! boot ID changes with each boot. Only systemd is missing: the tests run the units in the order in which systemd
//! runs them, and a requested reboot does not take place. Needs root.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test reports by panicking"
)]

mod activation;
mod boot_check;
mod boot_menu;
mod bypass;
mod documents;
mod finalize_fails;
mod fips;
mod first_boot;
mod foreign;
mod generations;
mod health;
mod history;
mod kills;
mod labels;
mod late_recovery;
mod local_changes;
mod origin;
mod refusals;
mod releases;
mod repair;
mod rpm_ostree;
mod signatures;
mod soak;
mod soft_reboot;
mod stage_kills;
mod surface;
mod trust_kills;
mod unstage;
mod updates;
