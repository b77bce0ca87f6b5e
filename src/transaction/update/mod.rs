//! Updates, rollbacks and drift repair of a plain tree, of a sysroot that is not running, and of the
//! running host.

pub(crate) mod clean_up;
pub mod error;
pub(crate) mod extensions;
pub mod finalize;
pub mod live_update;
pub(crate) mod new_deployment;
pub mod offline_sysroot;
pub mod plain_tree;
pub mod repair;
pub mod rollback;
pub mod running_host;
pub mod space;
pub mod stage;
pub mod sysroot;
pub mod update_plan;
