//! One journaled change of files: prepared, applied, or undone.

pub mod apply;
pub(crate) mod atomic_file;
pub mod journal;
pub mod labels;
pub(crate) mod moves;
pub(crate) mod policy_labels;
pub(crate) mod prepare;
pub mod recover;
