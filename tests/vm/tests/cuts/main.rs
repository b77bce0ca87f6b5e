//! Power cuts: whatever moment the power goes, the disk boots one generation, and the whole of it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test reports by panicking")]

mod boots;
mod change;
mod expected;
mod judge;
mod moments;
mod orders;
mod planted;
mod staging;
mod state;
mod sweep;

use vm::{config, operator};
