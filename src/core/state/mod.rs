//! The agent's own documents on a host, and the decisions that follow from them at boot.

pub mod blocked;
pub mod boot_check;
pub mod booted_state;
pub mod carry_forward;
pub mod installation;
pub mod journal;
pub mod mcd_originals;
pub mod objects;
pub mod pending;
pub mod record;
pub mod recovery;
pub mod rollback;
pub mod service_action;
