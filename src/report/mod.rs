//! What others read: one document per command, versioned, described in `docs/schema/`.

pub mod etc_diff;
pub mod plan;
pub mod status;
