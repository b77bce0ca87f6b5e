//! Observers of a disk.

use crate::image::{Edit, Image, Number};

/// Observer of the edits and flushes of a disk.
pub trait Watch {
    /// Report that `before` is about to be edited.
    fn edit(&self, before: &Image, edit: &Edit);
    /// Report that an inode is about to be made durable.
    fn flush(&self, image: &Image, number: Number);
}

/// Observer that ignores everything.
#[derive(Debug, Clone, Copy)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn edit(&self, _: &Image, _: &Edit) {}
    fn flush(&self, _: &Image, _: Number) {}
}
