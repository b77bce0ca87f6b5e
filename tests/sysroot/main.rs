//! The command line on OSTree sysroots, observed from outside: real worker, real libostree, real skopeo. Needs
//! root.
//!
//! The expected results are derived here from the image and the config, independently of the product, which
//! contributes paths and executables only.
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
mod live_line;
mod mounts;
mod refusals;
mod unchanged;
mod updates;
mod worker;
