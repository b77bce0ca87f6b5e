//! Unit jobs and reboots over D-Bus: the product's clients of systemd and logind, against scripted fakes and
//! against a real systemd.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test reports by panicking"
)]

mod as_service;
mod hook_programs;
mod jobs;
mod reboot;
mod sandbox;
