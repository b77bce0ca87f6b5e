//! Booted hosts, as far as a process can tell, and the configs that tests apply to them.

pub mod config;
pub mod fips;
pub mod host;
mod mounts;
pub mod release;
mod rollback;
