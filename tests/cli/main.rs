//! The command line's documents, and the files that an installation consists of.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test reports by panicking"
)]

mod installation;
mod render;
mod schema;
