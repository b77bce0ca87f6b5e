//! The executable on plain trees, seen from outside: what it makes of configs, and what it refuses.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test reports by panicking"
)]

mod activation;
mod bad_document;
mod bad_host;
mod bad_input;
mod hostile;
mod irreconcilable;
#[path = "../model/mod.rs"]
mod model;
mod planted;
mod rendered;
mod secrets;
