//! What is decided: plain data and pure functions. No IO, no clock, no environment, no async.
#![deny(clippy::disallowed_methods, clippy::disallowed_macros, clippy::disallowed_types)]

pub mod config;
pub mod daemon;
pub mod enablement;
pub mod etc_merge;
pub mod plan;
pub mod state;
pub mod values;
