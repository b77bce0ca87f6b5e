//! Generations of hosts that run: how they are staged, bound, booted, settled and left, and what a power cut leaves.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test reports by panicking")]

mod change;
mod cuts;
mod daemon;
mod first_boot;
mod generations;
mod kola;
mod prepared;
