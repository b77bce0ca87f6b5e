//! The other ends of the D-Bus connection: a bus, the `rpm-ostreed` stand-in in a process of its own, and a client
//! that is not the agent.

pub(super) mod bus;
pub(super) mod daemon;
pub(super) mod stranger;
