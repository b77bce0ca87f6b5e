//! The agent's documents on a host: records, journals, reports and settings.

pub(crate) mod agent_files;
pub mod blocked;
pub mod boot_check_time;
pub mod current;
pub mod decided_change;
pub mod error;
pub mod interrupted;
pub mod login_message;
pub mod objects;
pub mod pending;
pub(crate) mod record;
pub(crate) mod rpm_ostree_request;
pub mod settings;
pub mod status_files;
pub mod unconfirmed_mark;
