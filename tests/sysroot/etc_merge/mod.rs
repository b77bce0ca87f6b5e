//! The predicted merge of `/etc` against libostree's own: random trees, merged by a real deployment through the real
//! worker. Needs root.
//!
//! Each run draws other trees; what it drew them from is printed, and `FLAMEHOLDER_SEED` draws the same again.
//! `FLAMEHOLDER_EXHAUSTIVE` draws more.

mod bench;
mod disk;
mod draw;
mod merges;
mod tree;
