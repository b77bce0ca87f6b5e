//! The daemon as it is on a host: the executable on the host that `booted` tests have, with a logind that notes what it
//! is asked, and sources that change their mind. A reboot is one of that host's: what is shut down binds, what boots has
//! a new boot ID, and a new daemon.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test reports by panicking"
)]

mod cluster;
mod deployment;
mod directory;
mod handover;
mod mcd;
