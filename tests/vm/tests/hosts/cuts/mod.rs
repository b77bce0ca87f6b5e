//! Power cuts: whatever moment the power goes, the disk boots one generation, and the whole of it.

mod boots;
pub mod expected;
pub mod judge;
pub mod orders;
mod planted;
mod staging;
mod state;
mod steps;
pub mod sweep;
