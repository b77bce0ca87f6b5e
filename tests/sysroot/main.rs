//! The command line on OSTree sysroots, seen from outside: real worker, real libostree, real skopeo. Needs
//! root.
//!
//! What must be there is worked out here, from the image and the config; nothing but paths and executables is
//! taken from the product.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test reports by panicking"
)]

#[path = "../model/mod.rs"]
#[expect(dead_code, reason = "plain trees have a use for the rest of the model")]
mod model;

mod activation;
mod boot;
mod etc;
mod etc_merges;
mod first_presets;
mod generations;
mod history;
mod host;
mod kernel_arguments;
mod kills;
mod labels;
mod mounts;
mod refusals;
mod unchanged;
mod updates;
