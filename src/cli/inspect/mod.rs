//! Commands that read and report: plan, status, verify, history, etc-diff, fleet, render, schema, version. Only `verify --repair`
//! changes a tree.

mod contents;
mod deployment_text;
pub(crate) mod etc_diff;
pub(crate) mod fleet;
pub(crate) mod history;
pub(crate) mod plan;
mod release;
pub(crate) mod render;
pub(crate) mod schema;
pub(crate) mod status;
mod status_text;
mod status_watch;
pub(crate) mod verify;
mod verify_text;
pub(crate) mod version;
