//! Small generated OSTree hosts and OS images for demonstrations and tests.
//!
//! [`Os`] is a tree of a few hundred kilobytes that looks like Fedora CoreOS to libostree, skopeo and Flameholder: kernel,
//! users, vendor units, presets, `/usr/etc`. [`write_image`] makes a bootable container image of it, [`SysrootBuilder`]
//! a disk's root that has it deployed. Nothing of that boots; the kernel is noise. [`write_tree_image`] makes an image of
//! a tree that somebody else built and that may well boot.
//!
//! Everything is written below the directory that the caller names. The same input gives the same bytes, digests included.
//! Files belong to root, so all of this needs root.

mod canonical;
mod image;
mod remove;
mod sysroot;
mod tree;
mod units;

pub use image::{Release, write_image, write_tree_image};
pub use remove::{Scratch, remove};
pub use sysroot::SysrootBuilder;
pub use tree::Os;
