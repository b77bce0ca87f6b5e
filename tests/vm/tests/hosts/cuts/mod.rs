//! Power cuts: at each moment of a change, the disk boots exactly one generation, completely.

mod boots;
pub mod expected;
pub mod judge;
pub mod orders;
mod planted;
mod staging;
mod state;
mod steps;
pub mod sweep;
