//! The pages of the book: each command in them runs and prints what they show, each link leads somewhere.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test reports by panicking"
)]

mod commands;
mod folder;
mod links;
mod script;
