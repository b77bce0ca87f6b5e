//! Every way in which a change can be interrupted, and what comes of each.
//!
//! The engine runs on a disk in memory ([`disk`], which [`differential`] holds against a real one),
//! from real trees to which the product applied one config and is to apply another.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test reports by panicking"
)]

#[expect(dead_code, reason = "no engine errs on purpose yet")]
mod bent;
mod case;
mod crashes;
mod differential;
mod disk;
mod explorer;
#[expect(dead_code, reason = "no disk loses anything yet")]
mod image;
mod kinds;
mod lookup;
#[path = "../model/mod.rs"]
#[expect(dead_code, reason = "other tests have a use for the rest of the model")]
mod model;
mod reader;
mod sight;

/// Whether more is to be tried than every change needs.
fn is_exhaustive() -> bool {
    std::env::var_os("HOSTWRIGHT_EXHAUSTIVE").is_some()
}
