//! Makes an OSTree host what its rendered MachineConfig says: all of it or none of it.
pub mod cli;
pub mod cluster;
pub mod core;
pub mod daemon;
pub mod firstboot;
pub mod host;
pub mod os;
pub mod report;
pub mod source;
pub mod transaction;
