//! Links that would have root write elsewhere: planted beforehand, and put in place while root writes.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test reports by panicking"
)]

mod arena;
#[path = "../kills/judge.rs"]
#[expect(dead_code, reason = "nothing is killed here")]
mod judge;
#[path = "../model/mod.rs"]
#[expect(dead_code, unused_imports, reason = "configs in pairs have a use for the rest of the model")]
mod model;
mod planted;
mod racer;
#[path = "../strace/mod.rs"]
#[expect(dead_code, reason = "nothing is killed here")]
mod strace;
mod swapped;
