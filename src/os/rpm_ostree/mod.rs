//! rpm-ostreed, which manages rebases and packages on CoreOS hosts, called over D-Bus without running a
//! program.
//!
//! rpm-ostreed is called for one purpose: one transaction that stages a *locked* deployment of an image with
//! packages. Then libostree, through the [worker](super::worker), stages the same commit and origin once
//! more, with all kernel arguments of the generation. This takes no second transaction for kernel arguments,
//! inherits none of the booted deployment's, and makes all later steps the same as on a host without
//! rpm-ostreed. An update that changes only files, keys, units or kernel arguments does not come here:
//! libostree stages the booted commit again.
//!
//! - [`daemon`]: connection, activation, waiting for other clients' transactions.
//! - [`transaction`]: one transaction, which ends in exactly one
//!   [`RpmOstreeOutcome`](transaction::RpmOstreeOutcome).
//! - [`failure`]: classification of its error text.
//! - [`verdict`]: next step, from the outcome and the resulting deployments.
//! - [`session`]: implementation of the port.
//!
//! This behavior was observed with rpm-ostree 2026.2 and confirmed in its source.

pub mod daemon;
pub mod failure;
mod progress_messages;
mod proxies;
mod request;
pub mod session;
pub mod transaction;
pub mod verdict;

use std::time::Duration;

pub use proxies::NAME;
pub use request::{LayerBase, LayerRequest};
pub use session::RpmOstreeSession;

use super::sysroot_lock::lock_timeout;

/// Deadlines of calls to rpm-ostreed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RpmOstreeDeadlines {
    /// Reply to a method call. Some methods open and lock the sysroot; the `rpm-ostree` command uses the same
    /// timeout.
    pub answer: Duration,
    /// Reply to `Start` of a transaction.
    pub start: Duration,
    /// Maximum time without an event from a transaction. Fetching one image layer sends none.
    pub idle_timeout: Duration,
    /// End of a transaction after it was cancelled.
    pub stop: Duration,
    /// End of another client's transaction.
    pub busy_timeout: Duration,
    /// Maximum delay between two calls to a busy daemon, or before a failed transaction is repeated.
    pub max_poll_interval: Duration,
}

impl Default for RpmOstreeDeadlines {
    fn default() -> Self {
        let minutes = |number: u64| Duration::from_secs(number * 60);
        Self {
            answer: minutes(5),
            start: minutes(5),
            idle_timeout: minutes(30),
            stop: minutes(2),
            busy_timeout: lock_timeout(None),
            max_poll_interval: Duration::from_secs(30),
        }
    }
}
