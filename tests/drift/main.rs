//! What becomes of a host after an apply: every kind of deviation is found, judged by the settings, and
//! repaired where they say so.
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
mod repairs;
#[path = "../model/run.rs"]
mod run;
#[path = "../model/snapshot.rs"]
mod snapshot;
#[path = "../model/tree.rs"]
mod tree;
