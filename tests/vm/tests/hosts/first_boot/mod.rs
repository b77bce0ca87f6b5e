//! First boots: an installed machine that has never booted, the real Ignition, and the config of a config
//! server.

mod cuts;
mod joins;
mod node;
