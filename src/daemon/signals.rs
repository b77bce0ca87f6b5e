//! What the daemon is asked by signals.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::core::daemon::lifecycle::DaemonEvent;

/// Those that mean something to it.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    /// Begins to wait for them.
    pub(super) fn expect() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> DaemonEvent {
        tokio::select! {
            _ = self.terminate.recv() => DaemonEvent::Stop,
            _ = self.interrupt.recv() => DaemonEvent::Stop,
            _ = self.hang_up.recv() => DaemonEvent::StateChanged,
        }
    }
}
