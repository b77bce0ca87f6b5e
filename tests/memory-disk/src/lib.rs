//! Disk in memory that the engine runs on, and the disks that a power cut can leave of it.
//!
//! A [`MemoryDisk`] implements the product's port on an [`Image`], and reports each [`Edit`] and each flush to a
//! [`Watch`]. [`Unflushed`] lists the images after a power cut. The tests of `tests/crash` explore millions of images,
//! so this crate is optimized; one of them compares it with a real file system.

mod flushes;
mod image;
mod lookup;
mod memory;
mod watch;

pub use flushes::{Unflushed, UnflushedKey};
pub use image::{Body, Edit, Image, Inode, Number, Place, Rights, TOP};
pub use memory::MemoryDisk;
pub use watch::{Unwatched, Watch};
