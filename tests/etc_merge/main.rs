//! The predicted merge of `/etc` against libostree's own: random trees, merged by a real deployment through the real
//! worker. Needs root.
//!
//! Each run draws other trees; what it drew them from is printed, and `FLAMEHOLDER_SEED` draws the same again.
//! `FLAMEHOLDER_EXHAUSTIVE` draws more.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod bench;
mod disk;
mod draw;
#[path = "../worker/fixture.rs"]
#[expect(dead_code, reason = "the worker's own tests have a use for the rest")]
mod fixture;
mod merges;
mod tree;

/// Whether more is to be tried than every change needs.
fn is_exhaustive() -> bool {
    std::env::var_os("FLAMEHOLDER_EXHAUSTIVE").is_some()
}
