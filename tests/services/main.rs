//! Services and reboots over D-Bus: the ports' real implementations, against a systemd and a logind that follow a script,
//! and against a real systemd.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test reports by panicking"
)]

mod jobs;
mod reboot;
