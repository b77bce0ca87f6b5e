//! Drives the real worker through its client, on sysroots that `osimage` makes. Needs root and skopeo.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod boot_entries;
mod deployments;
mod fixture;
mod images;
mod interruptions;
mod registry;
