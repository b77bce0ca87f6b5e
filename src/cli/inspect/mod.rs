//! Commands that read and report: plan, status, verify, history, etc-diff, render, version. Only `verify --repair`
//! changes a tree.

mod contents;
pub(crate) mod etc_diff;
pub(crate) mod history;
pub(crate) mod plan;
pub(crate) mod plan_text;
pub(crate) mod render;
pub(crate) mod status;
mod status_text;
pub(crate) mod verify;
pub(crate) mod version;
