//! Signals of the daemon: SIGTERM and SIGINT stop it, SIGHUP makes it observe the host again.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::core::daemon::lifecycle::DaemonEvent;

/// Handlers of the daemon's signals.
pub(super) struct DaemonSignals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl DaemonSignals {
    /// Install the handlers.
    pub(super) fn install() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Wait for the next signal and return its event. Cancel safe.
    pub(super) async fn next(&mut self) -> DaemonEvent {
        tokio::select! {
            _ = self.terminate.recv() => DaemonEvent::Stop,
            _ = self.interrupt.recv() => DaemonEvent::Stop,
            _ = self.hang_up.recv() => DaemonEvent::StateChanged,
        }
    }
}
