//! JSON documents of `-o json`: each with a version and a schema in `docs/schema/`.

pub mod change;
pub mod error;
pub mod etc_diff;
pub mod fleet;
pub mod history;
pub mod plan;
pub mod schema;
pub mod status;
pub mod verify;
pub mod version;
