//! Booted OSTree hosts in QEMU, and the scenarios that run on them.
//!
//! `build` builds disks and images from Debian packages, in stages that are cached by their inputs. [`Host`]
//! is one virtual machine on a disk of its own: commands, files, reboots, power cuts. [`Registry`] serves the
//! OS images that the host updates to. [`scenario()`] runs one test on a host and keeps consoles and journal
//! if the test fails.

pub mod build;
pub mod config;
pub mod containerfile;
pub mod kola;
pub mod operator;
pub mod program;
pub mod signing;
pub mod story;
pub mod writelog;

mod accel;
mod agent;
mod confinement;
mod cut;
mod evidence;
mod host;
mod lab;
mod lines;
mod machine;
mod monitor;
mod power;
mod registry;
mod scenario;
mod serial;
mod snapshot;
mod wait;
mod witness;

pub use agent::Output;
pub use confinement::AuditRecords;
pub use host::{Host, HostOrigin, Start};
pub use lab::{GuestOs, Lab};
pub use machine::Forward;
pub use registry::Registry;
pub use scenario::{prepared, scenario, scenario_from};
pub use wait::until;
pub use witness::Witness;
