//! The agent's own documents on a host, and the decisions that follow from them at boot.

pub mod activation;
pub mod boot_check;
pub mod carried;
pub mod generation;
pub mod held;
pub mod installation;
pub mod journal;
pub mod orig;
pub mod pending;
pub mod recovery;
pub mod rolled_back;
pub mod service_action;
pub mod standing;
