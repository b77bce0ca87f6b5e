//! Carrying a plan out, or leaving everything as it was.

pub mod activate;
pub mod current;
mod draft;
mod error;
pub mod generation;
pub mod journal;
pub mod labels;
pub mod live;
mod moves;
mod own_files;
mod prepare;
mod record;
pub mod repair;
pub mod settle;
pub mod store;
mod survey;
pub mod sysroot;
pub mod tree;
pub mod verify;

pub use error::TransactionError;
