//! The daemon's executable on a booted host of the testbed, with a fake logind that records requests and with
//! each source of a desired config. A reboot is simulated: the shutdown finalizes the staged deployment, the
//! boot gets a new boot ID, and the test starts a new daemon.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test reports by panicking"
)]

mod admission;
mod agent_copies;
mod alert_rules;
mod artifact;
mod cluster;
mod config_server;
mod deployment;
mod directory;
mod drift;
mod fleet;
mod handover;
mod mcd;
mod metrics;
mod monitoring;
mod own_drain;
mod pool;
mod reboot_lease;
mod reboot_policy;
mod remote_contents;
mod settings;
