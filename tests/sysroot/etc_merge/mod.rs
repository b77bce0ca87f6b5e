//! The predicted merge of `/etc` against libostree's own: random trees, merged by a real deployment through the real
//! worker. Needs root.
//!
//! Each run draws other trees from a seed that it prints; `FLAMEHOLDER_SEED` draws the same trees again.
//! `FLAMEHOLDER_EXHAUSTIVE` draws more.

mod bench;
mod disk;
mod draw;
mod merges;
mod tree;
