//! The state machine of the daemon, and its reports to the cluster and the journal.

pub mod daemon_report;
pub mod lifecycle;
pub mod message_ids;
pub mod node;
