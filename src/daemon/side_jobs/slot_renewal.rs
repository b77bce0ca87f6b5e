//! Renewals of a slot that expires. Each is a few requests of the daemon itself: a process of its own would wait for the end of
//! a preparation, in which the slot could be lost.

use std::path::Path;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use crate::host::Root;
use crate::transaction::grant::slot_renewal;

/// Renewals of the slot, one at a time.
#[derive(Debug)]
pub(in crate::daemon) struct SlotRenewal {
    state: RenewalState,
    done: UnboundedSender<Option<Duration>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RenewalState {
    /// The host holds no slot that expires.
    Off,
    Due(Instant),
    Running,
}

impl SlotRenewal {
    /// Create it, with the receiver of the results of renewals.
    pub(in crate::daemon) fn new() -> (Self, UnboundedReceiver<Option<Duration>>) {
        let (done, finished) = unbounded_channel();
        (Self { state: RenewalState::Off, done }, finished)
    }

    /// Begin to renew, if the host holds a slot that expires.
    pub(in crate::daemon) fn look(&mut self, root: &Root) {
        if self.state == RenewalState::Off && slot_renewal::is_needed(root) {
            self.state = RenewalState::Due(Instant::now());
        }
    }

    /// Time of the next renewal.
    pub(in crate::daemon) fn due(&self) -> Option<Instant> {
        match self.state {
            RenewalState::Due(at) => Some(at),
            RenewalState::Off | RenewalState::Running => None,
        }
    }

    /// Start a renewal that is due at `now`.
    pub(in crate::daemon) fn expire(&mut self, now: Instant) {
        if self.due().is_some_and(|at| at <= now) {
            self.state = RenewalState::Running;
            let done = self.done.clone();
            tokio::spawn(async move {
                let next = match Root::open(Path::new("/")) {
                    Ok(root) => slot_renewal::renew(&root).await,
                    Err(_) => None,
                };
                // The receiver is gone only when the daemon stops.
                let _ = done.send(next);
            });
        }
    }

    /// Take the result of a renewal: the time until the next one.
    pub(in crate::daemon) fn finish(&mut self, next: Option<Duration>) {
        self.state = next.map_or(RenewalState::Off, |next| RenewalState::Due(Instant::now() + next));
    }
}
