//! Scenarios on booted hosts: staging, boot, boot check and rollback of generations, first boots, and power
//! cuts.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test reports by panicking")]

mod change;
mod confinement;
mod cuts;
mod daemon;
mod first_boot;
mod generations;
mod images;
mod installations;
mod kola;
mod pages;
mod prepared;
