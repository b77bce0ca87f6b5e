//! Hosts that booted, as far as a process can tell, and the configs that they are brought to.

pub mod config;
pub mod host;
