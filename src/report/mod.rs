//! What others read: one document per command, versioned, described in `docs/schema/`.

pub mod plan;
pub mod status;
