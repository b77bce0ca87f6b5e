//! Plans for a tree or a deployment, from the desired config and the state of the host. Nothing is written.

pub(crate) mod adopted_copy;
pub(crate) mod deployment_plan;
pub mod drift;
pub mod error;
pub mod etc_merge;
pub mod host_origin;
pub(crate) mod layering;
mod signature_check;
pub mod target;
pub(crate) mod tree_plan;
pub(crate) mod writable_paths;
