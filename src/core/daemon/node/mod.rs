//! The host as a node of a cluster: what the cluster's controllers say to it and read of it. The names and values are
//! those of the machine-config-daemon, on which these controllers depend.

pub mod annotations;
pub mod conditions;
pub mod events;
