//! The rules of `core` from outside: tables for known cases, properties for what must hold always, and systemctl for what
//! is systemctl's.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test reports by panicking"
)]

mod enablement;
mod kargs;
mod lifecycle;
mod properties;
