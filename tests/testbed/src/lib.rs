//! The ground that the tests stand on: hosts at rest and hosts that booted, buses with a fake or a real systemd and a
//! fake logind, a control plane, runs under strace, and a model of the product that is written from its specification.
//!
//! Operating systems are made by [`osimage`] and rpm-ostreed is [`rpmostreed`]: programs of their own, which the
//! demonstration and the hosts in virtual machines use as well.

pub mod agent;
pub mod boot;
pub mod booted;
pub mod control_plane;
pub mod dbus;
pub mod executables;
pub mod model;
pub mod offline;
pub mod preconditions;
pub mod strace;
pub mod worker;

pub use osimage;
pub use rpmostreed;

use std::path::{Path, PathBuf};

/// The repository's root.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("a crate inside a repository")
}

/// A file or folder of the tests' fixtures.
pub fn fixture(name: &str) -> PathBuf {
    repository().join("tests/fixtures").join(name)
}

/// True where `FLAMEHOLDER_EXHAUSTIVE` asks for more than every change needs.
pub fn is_exhaustive() -> bool {
    std::env::var_os("FLAMEHOLDER_EXHAUSTIVE").is_some()
}
