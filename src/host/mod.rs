//! The host's file system, behind one handle: nothing below here leaves the root it was given.

pub mod accounts;
pub mod boot;
pub mod disk;
mod effects;
pub mod error;
mod extended;
pub mod facts;
pub mod fragments;
pub mod lock;
mod lookup;
mod mounts;
pub mod observe;
pub mod root;
pub mod service_actions;
pub mod sight;
pub mod staging;
mod sync;
pub mod unit_texts;

pub use disk::{Disk, Status};
pub use error::{HostError, Op};
pub use root::Root;
