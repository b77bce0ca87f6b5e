//! The host's file system, behind one handle: nothing below here leaves the root it was given.

pub mod accounts;
pub mod boot;
pub mod effects;
pub mod error;
mod extended;
pub mod facts;
pub mod fragments;
pub mod lock;
pub mod observe;
pub mod root;
pub mod staging;
pub mod unit_texts;

pub use effects::Effects;
pub use error::{HostError, Op};
pub use root::Root;
