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

mod activation;
mod etc;
mod etc_merge;
mod etc_merges;
mod first_presets;
mod generations;
mod history;
mod kernel_arguments;
mod kills;
mod labels;
mod mounts;
mod refusals;
mod unchanged;
mod updates;
mod worker;
