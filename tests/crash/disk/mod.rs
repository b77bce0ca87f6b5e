//! Disk in memory that the engine runs on, and its comparison with a real one.

mod differential;
pub mod effect;
pub mod flushes;
pub mod image;
pub mod lookup;
mod memory;
pub mod reader;
pub mod sight;

pub use memory::{MemoryDisk, Unwatched, Watch};
