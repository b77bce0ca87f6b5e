//! What becomes of a host after an apply: every kind of deviation is found, and judged by the
//! settings.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test reports by panicking"
)]

#[path = "../model/document.rs"]
mod document;
mod fragments;
mod host;
mod kinds;
#[path = "../model/run.rs"]
mod run;
#[path = "../model/snapshot.rs"]
mod snapshot;
#[path = "../model/tree.rs"]
mod tree;
