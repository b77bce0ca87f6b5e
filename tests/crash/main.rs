//! Every way in which a change can be interrupted, and the tree after each.
//!
//! The engine runs on a disk in memory ([`memory_disk`], which `disk::differential` compares with a real one), from
//! real trees to which the product applied one config and is to apply another ([`case`], [`kinds`]). It is
//! killed at every edit ([`crashes`]), loses power on disks that keep only flushed data ([`lying`]), and gets
//! every error of a disk or a service ([`errors`]). Engines with planted faults show that these tests can
//! fail ([`planted`], [`flush_by_flush`]).
//!
//! `FLAMEHOLDER_EXHAUSTIVE` explores more, `FLAMEHOLDER_SCENARIO` only the scenario of that name, and
//! `--no-capture` shows the amount of exploration of each.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a failed test panics")]

mod bent;
mod case;
mod crashes;
mod disk;
mod errors;
mod explorer;
mod flush_by_flush;
mod full;
mod kills;
mod kinds;
mod lying;
mod others;
mod planted;
