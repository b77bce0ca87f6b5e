//! Termination signals, delayed while an rpm-ostreed transaction has to be cancelled first.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use nix::sys::signal::{SigSet, Signal, raise};
use tokio::sync::watch;

const SIGNALS: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];

/// Handler of termination signals. They terminate the process as by default, unless a [guard](Self::guard)
/// exists.
#[derive(Clone)]
pub struct InterruptSignals {
    in_care: Arc<Mutex<Option<watch::Sender<bool>>>>,
    notice: Arc<OnceLock<InterruptNotice>>,
}

/// Called when a person interrupts the process.
type InterruptNotice = Box<dyn Fn() + Send + Sync>;

/// The handler of this process. Of two threads that wait for the same signals either could get one.
static HANDLER: OnceLock<InterruptSignals> = OnceLock::new();

impl std::fmt::Debug for InterruptSignals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InterruptSignals").finish_non_exhaustive()
    }
}

/// While a guard exists, the first signal does not terminate the process.
#[derive(Debug)]
pub struct InterruptGuard {
    interrupt: InterruptSignals,
    asked: watch::Receiver<bool>,
}

impl InterruptSignals {
    /// Block the signals and handle them in a thread; return the handler that exists, if there is one. Must be called
    /// before the process has other threads: only threads started later inherit the signal mask. Child processes
    /// are not affected.
    #[must_use]
    pub fn install() -> Self {
        let handler = HANDLER.get_or_init(|| {
            let interrupt = Self { in_care: Arc::default(), notice: Arc::default() };
            let waiting = interrupt.clone();
            in_thread(move |signals| waiting.wait(signals));
            interrupt
        });
        handler.clone()
    }

    /// Call `notice` before SIGINT terminates the process. Only the first one counts.
    pub fn announce(&self, notice: impl Fn() + Send + Sync + 'static) {
        self.notice.get_or_init(|| Box::new(notice));
    }

    fn wait(&self, signals: SigSet) {
        while let Ok(signal) = signals.wait() {
            let in_care = self.in_care.lock().unwrap_or_else(PoisonError::into_inner);
            match &*in_care {
                // A second signal terminates the process at once.
                Some(care) if !*care.borrow() => drop(care.send(true)),
                _ => {
                    if let Some(notice) = self.notice.get().filter(|_| signal == Signal::SIGINT) {
                        // A terminal that does not take the notice must not keep the process: the next signal
                        // terminates it.
                        let _ = signals.thread_unblock();
                        notice();
                    }
                    terminate(signals, signal);
                }
            }
        }
    }

    /// Make the first signal from now on only complete the wait for an interruption.
    #[must_use]
    pub fn guard(&self) -> InterruptGuard {
        let (sender, asked) = watch::channel(false);
        *self.in_care.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        InterruptGuard { interrupt: self.clone(), asked }
    }
}

/// Run `act` before the first termination signal ends the process. Must be called before the process has other
/// threads, as [`InterruptSignals::install`].
pub fn before_termination(act: impl FnOnce() + Send + 'static) {
    in_thread(move |signals| {
        if let Ok(signal) = signals.wait() {
            act();
            terminate(signals, signal);
        }
    });
}

/// Block the signals, and let `wait` wait for them in a thread.
fn in_thread(wait: impl FnOnce(SigSet) + Send + 'static) {
    let ignored = ignored_signals();
    let signals: SigSet =
        SIGNALS.into_iter().filter(|signal| ignored & (1 << (*signal as u32 - 1)) == 0).collect();
    if signals.thread_block().is_ok() {
        std::thread::spawn(move || wait(signals));
    }
}

/// Return the mask of the signals that the process ignores, as after nohup(1) or in a shell's background. A blocked signal
/// is delivered to `sigwait` although it is ignored.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

/// Perform the default action, as if the signal had not been blocked.
fn terminate(signals: SigSet, signal: Signal) {
    if signals.thread_unblock().and_then(|()| raise(signal)).is_err() {
        std::process::abort();
    }
}

impl InterruptGuard {
    /// Wait until a signal asks the process to terminate.
    pub async fn interrupted(&mut self) {
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
