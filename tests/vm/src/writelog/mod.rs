//! Every state that a power cut could have left on a disk, from a record of its writes.
//!
//! QEMU's `blklogwrites` writes down what a guest wrote, and when it flushed. [`Replay`] rebuilds the
//! disk as it stood at each flush, and as it might have stood in between, when some of the writes
//! since the last flush were lost. In each of these states it repairs the file systems as a boot does,
//! asks the boot entries what would be booted ([`BootedSystem`]), and asks the test what that is: the old
//! system, the new one, or neither.
//!
//! It needs neither root nor mounts, nor a copy of the disk for each state: `e2fsck` notes what it
//! changes and `e2undo` takes that back, and the files are read by a library.

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
