//! The executable on plain trees, seen from outside: one apply, drift after it, several at a time, and links that change
//! under it. Needs root, systemctl and strace.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test reports by panicking"
)]

mod drift;
mod locks;
mod plain;
mod race;
