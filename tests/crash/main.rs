//! Every way in which a change can be interrupted, and what comes of each.
//!
//! The engine runs on a disk in memory ([`disk`], which `disk::differential` holds against a real one),
//! from real trees to which the product applied one config and is to apply another ([`case`],
//! [`kinds`]). It is killed at every edit ([`crashes`]), loses power on disks that keep only what
//! was flushed ([`lying`]), and gets every error that a disk or a service has ([`errors`]). Engines
//! that err on purpose show that all this can fail ([`planted`], [`flush_by_flush`]).
//!
//! `FLAMEHOLDER_EXHAUSTIVE` tries more, `FLAMEHOLDER_SCENARIO` only the scenario of that name, and
//! `--no-capture` shows how much was tried of each.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test reports by panicking"
)]

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
