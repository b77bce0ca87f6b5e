//! Environment for the tests: offline sysroots and booted hosts, buses with a fake or a real systemd and a
//! fake logind, a control plane, runs under strace, and a model of the product that is written from its
//! specification.
//!
//! Operating systems come from [`osimage`] and rpm-ostreed from [`rpmostreed`]: separate crates, which the
//! demonstration and the hosts in virtual machines use too.

pub mod agent;
pub mod boot;
pub mod booted;
pub mod control_plane;
pub mod cri_server;
pub mod dbus;
pub mod executables;
pub mod https_server;
pub mod model;
pub mod offline;
pub mod output_lines;
pub mod preconditions;
pub mod promtool;
pub mod strace;
pub mod tls_terminator;
pub mod worker;

use std::path::{Path, PathBuf};

pub use osimage;
pub use rpmostreed;

/// Root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("a crate inside a repository")
}

/// File or folder of the test fixtures.
pub fn fixture(name: &str) -> PathBuf {
    repository().join("tests/fixtures").join(name)
}

/// True if `FLAMEHOLDER_EXHAUSTIVE` requests more than every change needs.
pub fn is_exhaustive() -> bool {
    std::env::var_os("FLAMEHOLDER_EXHAUSTIVE").is_some()
}
