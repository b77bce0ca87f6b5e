//! Executable on plain trees, from outside: single applies, drift, concurrent agents, and links that change
//! during an apply. Needs root, systemctl and strace.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a failed test panics")]

mod drift;
mod locks;
mod plain;
mod race;
