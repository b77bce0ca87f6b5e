//! Disk in memory that the engine runs on, and its comparison with a real one.

mod differential;
pub(crate) mod effect;
pub(crate) mod flushes;
pub(crate) mod image;
pub(crate) mod lookup;
mod memory;
pub(crate) mod reader;
pub(crate) mod sight;

pub(crate) use memory::{MemoryDisk, Unwatched, Watch};
