//! Rules of `core` from outside: tables of known cases, properties for arbitrary input, and comparison with
//! systemctl.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a failed test panics")]

mod butane;
mod documents;
mod enablement;
mod fleet;
mod kargs;
mod lifecycle;
mod properties;
