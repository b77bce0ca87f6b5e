//! Where a real node begins: an installed machine that never ran, the real Ignition, and what a config server sends.

mod cuts;
mod joins;
mod node;
