//! Signals that ask this process to end, where it has something to say to others first.

use std::sync::{Arc, Mutex, PoisonError};

use nix::sys::signal::{SigSet, Signal, raise};
use tokio::sync::watch;

/// Which they are.
const SIGNALS: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];

/// Waits for them. They end the process as always, but while somebody is [in care](Self::guard).
#[derive(Debug, Clone)]
pub struct InterruptSignals {
    in_care: Arc<Mutex<Option<watch::Sender<bool>>>>,
}

/// While it lives, a signal does not end the process.
#[derive(Debug)]
pub struct InterruptGuard {
    interrupt: InterruptSignals,
    asked: watch::Receiver<bool>,
}

impl InterruptSignals {
    /// Begins to wait. It has to be called before the process has other threads: only those started later have the
    /// signals left to it. Programs that are started are not affected.
    #[must_use]
    pub fn expect() -> Self {
        let interrupt = Self { in_care: Arc::default() };
        let signals: SigSet = SIGNALS.into_iter().collect();
        if signals.thread_block().is_ok() {
            let waiting = interrupt.clone();
            std::thread::spawn(move || waiting.wait(signals));
        }
        interrupt
    }

    fn wait(&self, signals: SigSet) {
        while let Ok(signal) = signals.wait() {
            let in_care = self.in_care.lock().unwrap_or_else(PoisonError::into_inner);
            match &*in_care {
                // The second one does not wait any longer.
                Some(care) if !*care.borrow() => drop(care.send(true)),
                _ => {
                    // As if it had never been waited for.
                    if signals.thread_unblock().and_then(|()| raise(signal)).is_err() {
                        std::process::abort();
                    }
                }
            }
        }
    }

    /// From now on the first signal only makes [`InterruptGuard::asked`] return.
    #[must_use]
    pub fn guard(&self) -> InterruptGuard {
        let (sender, asked) = watch::channel(false);
        *self.in_care.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        InterruptGuard { interrupt: self.clone(), asked }
    }
}

impl InterruptGuard {
    /// Returns once the process is asked to end.
    pub async fn asked(&mut self) {
        if self.asked.wait_for(|asked| *asked).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for InterruptGuard {
    fn drop(&mut self) {
        *self.interrupt.in_care.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
