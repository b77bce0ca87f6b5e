//! Updates, rollbacks and drift repair of a plain tree, of a sysroot that is not running, and of the
//! running host.

pub mod error;
pub(crate) mod extensions;
pub mod finalize;
pub(crate) mod interrupted_request;
pub mod live_update;
pub mod offline_sysroot;
pub mod plain_tree;
pub mod repair;
pub mod rollback;
pub(crate) mod rollback_pin;
pub mod running_host;
pub(crate) mod shipped_links;
pub mod space;
pub mod stage;
pub mod sysroot;
