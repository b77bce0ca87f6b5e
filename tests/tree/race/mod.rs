//! Links that would have root write elsewhere: planted beforehand, and put in place while root writes.

mod arena;
mod planted;
mod racer;
mod swapped;
