//! Power cuts: whatever moment the power goes, the disk boots one generation, and the whole of it.

mod boots;
mod expected;
mod judge;
mod moments;
mod orders;
mod planted;
mod staging;
mod state;
mod sweep;
