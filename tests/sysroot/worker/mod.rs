//! Drives the real worker through its client, on sysroots that `osimage` makes. Needs root and skopeo.

mod artifact_shelf;
mod artifacts;
mod boot_entries;
mod deployments;
mod fetches;
mod images;
mod interruptions;
mod release_images;
mod signatures;
mod signed_images;
