//! Carrying a plan out, or leaving everything as it was.

pub mod current;
mod draft;
mod error;
pub mod generation;
pub mod live;
mod record;
pub mod repair;
mod survey;
pub mod sysroot;
pub mod tree;
pub mod verify;

pub use error::TransactionError;
