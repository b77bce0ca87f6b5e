//! What is decided: plain data and pure functions. No IO, no clock, no environment, no async.
#![deny(clippy::disallowed_methods, clippy::disallowed_macros, clippy::disallowed_types)]

pub mod enablement;
pub mod kargs;
