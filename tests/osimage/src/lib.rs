//! Small generated OSTree hosts and OS images for demonstrations and tests.
//!
//! [`Os`] is a tree of a few hundred kilobytes that looks like Fedora CoreOS to libostree, skopeo and
//! Flameholder: kernel, users, vendor units, presets, `/usr/etc`. [`write_image`] writes a container image of
//! it that is labelled bootable, [`SysrootBuilder`] creates a sysroot in which it is deployed. Neither boots:
//! the kernel is noise. [`write_tree_image`] writes an image of an existing tree, which may be able to boot.
//!
//! Every file is written below the directory that the caller names. The same input gives the same bytes,
//! digests included. All functions need root, because the files belong to root.

mod agent;
mod artifact;
mod canonical;
mod image;
mod programs;
mod registry;
mod remove;
mod rpm_database;
mod sysroot;
mod tree;
mod units;

pub use artifact::{ArtifactLayout, TAR};
pub use image::{Release, write_image, write_tree_image};
pub use registry::{ImageRegistry, LinkSpeed, RegistryAnswers};
pub use remove::{Scratch, remove};
pub use sysroot::SysrootBuilder;
pub use tree::{Os, PolicyPaths};
