//! Node of a Kubernetes cluster: desired config, drain and uncordon handshake, events and conditions. Names
//! and values are those of the machine-config-daemon (MCD), on which MCO's controllers depend.

pub mod annotations;
pub mod conditions;
pub mod events;
pub mod image_set_entries;
pub mod node_report;
pub mod node_state;
