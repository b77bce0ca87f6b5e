//! Carrying a plan out, or leaving everything as it was.

pub mod activate;
pub mod arrive;
mod asked;
pub mod bind;
mod carry;
pub mod current;
pub mod decided;
pub mod departure;
mod draft;
mod error;
pub mod etc;
mod examination;
mod extensions;
pub mod first_boot;
pub mod generation;
pub mod handover;
pub mod held;
pub mod journal;
pub mod labels;
mod layering;
pub mod live;
mod moves;
pub mod notice;
mod own_files;
pub mod pending;
mod prepare;
pub mod probation;
mod record;
pub mod repair;
pub mod reports;
pub mod rollback;
pub mod running;
pub mod settle;
mod shipped_links;
mod space;
mod stage;
pub mod store;
mod survey;
pub mod sysroot;
pub mod tree;
pub mod verify;
mod whole_file;

pub use error::TransactionError;

use crate::os::Sysroot;
use crate::os::protocol::Access;

/// Opens sessions on the sysroot that runs, as often as one is needed.
pub type Sessions<'a> = &'a mut dyn FnMut(Access) -> Result<Box<dyn Sysroot>, TransactionError>;
