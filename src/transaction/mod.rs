//! Carrying a plan out, or leaving everything as it was.

pub mod boot;
pub mod engine;
mod error;
pub mod handover;
pub mod plan;
pub mod state;
pub mod update;

pub use error::TransactionError;

use crate::os::Sysroot;
use crate::os::protocol::SysrootAccess;

/// Opens sessions on the sysroot that runs, as often as one is needed.
pub type SysrootOpener<'a> = &'a mut dyn FnMut(SysrootAccess) -> Result<Box<dyn Sysroot>, TransactionError>;
