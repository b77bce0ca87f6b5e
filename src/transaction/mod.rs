//! Transactions: apply a plan completely or not at all. Staging, finalizing, activation, boot check,
//! rollback, live updates, drift, and the records on disk.

pub mod boot;
pub mod engine;
mod error;
pub mod grant;
pub mod handover;
pub mod history;
pub mod pinned_images;
pub mod plan;
mod side_change;
pub mod state;
pub mod trust;
pub mod update;

pub use error::TransactionError;

use crate::os::Sysroot;
use crate::os::protocol::SysrootAccess;

/// Opens a session with the booted sysroot; called once for each session that is needed.
pub type SysrootOpener<'a> = &'a mut dyn FnMut(SysrootAccess) -> Result<Box<dyn Sysroot>, TransactionError>;
