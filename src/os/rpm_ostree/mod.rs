//! rpm-ostreed, which owns rebases and packages on CoreOS hosts, asked over D-Bus. No program is run for that.
//!
//! It is asked for one thing: a deployment of an image with packages, in one transaction, staged and *locked*. What it
//! staged is staged once more by libostree, through the [worker](super::worker): the same commit and origin, with the
//! kernel arguments of the generation, as one whole string. So no second transaction is needed for them, nothing of the
//! deployment that runs is taken over, and from there on everything is as on a host without rpm-ostreed. A deployment
//! that only differs in files, keys, units or kernel arguments never gets here: libostree stages the commit that runs.
//!
//! - [`daemon`]: the bus, the daemon's comings and goings, whoever else keeps it busy.
//! - [`transaction`]: one transaction, which ends in exactly one [`Outcome`](transaction::Outcome).
//! - [`failure`]: what its text means.
//! - [`verdict`]: what is to be concluded from that and from the deployments.
//! - [`session`]: the port.
//!
//! What the daemon does and says was observed with rpm-ostree 2026.2 and read in its source.

pub mod daemon;
pub mod failure;
mod messages;
mod proxies;
mod request;
pub mod session;
pub mod transaction;
pub mod verdict;

use std::time::Duration;

pub use proxies::NAME;
pub use request::{LayerBase, LayerRequest};
pub use session::RpmOstreeSession;

/// How long is waited for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RpmOstreeDeadlines {
    /// For the answer to a method of the daemon: some open and lock the sysroot. Its own command line waits as long.
    pub answer: Duration,
    /// For the answer to the start of a transaction.
    pub start: Duration,
    /// For the next sign of life of a transaction. A layer of an image is fetched without one.
    pub silence: Duration,
    /// For the end of a transaction that was asked to stop.
    pub stop: Duration,
    /// For whoever else keeps the daemon busy.
    pub patience: Duration,
    /// The longest time between two looks at whether it is still busy, or until a failed transaction is tried again.
    pub pace: Duration,
}

impl Default for RpmOstreeDeadlines {
    fn default() -> Self {
        let minutes = |number: u64| Duration::from_secs(number * 60);
        Self {
            answer: minutes(5),
            start: minutes(5),
            silence: minutes(30),
            stop: minutes(2),
            patience: minutes(15),
            pace: Duration::from_secs(30),
        }
    }
}
