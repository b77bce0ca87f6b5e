//! Plans for a tree and for a deployment, from the configuration and the state of the host. Nothing is written.

pub(crate) mod deployment_plan;
pub mod drift;
pub mod etc_merge;
pub(crate) mod layering;
pub mod target;
pub(crate) mod tree_plan;
