//! Every state in which a power cut could have left a disk, from a log of its writes.
//!
//! QEMU's `blklogwrites` logs the writes and flushes of a guest. [`Replay`] rebuilds the disk at each flush,
//! and in states between two flushes in which some of the writes are lost. In each state it repairs the file
//! systems as a boot does, follows the default boot entry ([`BootedSystem`]), and calls the test's judge,
//! which returns the [`Side`]: the old or the new system. A mixture of both is a fault.
//!
//! A replay needs neither root nor mounts, nor a copy of the disk per state: `e2undo` reverts the changes of
//! `e2fsck`, and a library reads the files.

mod boot;
mod disk;
mod fsck;
mod inspect;
mod log;
mod overlay;
mod replay;
mod report;
mod tree;

pub use boot::{BootEntry, BootedSystem};
pub use disk::{Layout, join};
pub use inspect::Defect;
pub use log::{Entry, Epoch, Kind, WriteLog};
pub use overlay::OverlayDisk;
pub use replay::{Replay, Side};
pub use report::{Fault, Place, Report, Tally};
pub use tree::Tree;

#[cfg(test)]
mod tests;
