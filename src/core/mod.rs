//! The decisions: plain data and pure functions, from config decoding over the plan to the daemon's state
//! machine.
//!
//! No IO, no clock, no environment, no async: the floors above observe the host, pass observations in, and
//! carry out the result. The lints below enforce this in every nested module.
#![deny(clippy::disallowed_methods, clippy::disallowed_macros, clippy::disallowed_types)]

pub mod config;
pub mod daemon;
pub mod enablement;
pub mod etc_merge;
pub mod fleet;
pub mod history;
pub mod image_policy;
pub mod pinned_images;
pub mod plan;
pub mod state;
pub mod trust;
pub mod values;
