//! Documents that the agent keeps on a host (record, journal, pending generation, blocked target), and the
//! decisions that follow from them at boot: recovery, boot check, rollback.

pub mod blocked;
pub mod boot_check;
pub mod booted_state;
pub mod carry_forward;
pub mod installation;
pub mod journal;
pub mod log_line;
pub mod mcd_originals;
pub mod objects;
pub(crate) mod own_document;
pub mod pending;
pub mod reboot_grant;
pub mod record;
pub mod recovery;
pub mod service_action;
