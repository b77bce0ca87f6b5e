//! Makes an OSTree host what its rendered MachineConfig says: all of it or none of it.
pub mod core;
pub mod os;
