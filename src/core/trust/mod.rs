//! Trust material that a cluster gives its nodes besides their configs: CAs and pull secret of the
//! ControllerConfig, and the CA of its API server.
//!
//! [`document`] is the material as it travels through the daemon, [`material`] the decoded one, and [`trust_plan`]
//! the steps that bring it to the disk.

pub mod certificate;
pub mod document;
pub mod kubeconfig;
pub mod material;
pub mod trust_plan;
