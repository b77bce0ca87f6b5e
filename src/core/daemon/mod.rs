//! State machine of the daemon (phases, events, commands), and its reports to the cluster, to `flameholder
//! status` and to the systemd journal.

pub mod daemon_report;
pub mod drain;
pub mod grant;
pub mod hook_verdicts;
pub mod lifecycle;
pub mod message_catalog;
pub mod message_ids;
pub mod node;
pub mod repair_limit;
pub mod verification_delay;
