//! Planted faults of the stand-in.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// Faults of the stand-in; the default is none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[allow(clippy::struct_excessive_bools, reason = "switches")]
pub struct Faults {
    /// Error text of transactions, once they have begun to pull.
    pub fail: Option<String>,
    /// Error text of methods.
    pub refuse: Option<String>,
    /// Least duration of a transaction, in milliseconds.
    pub slow: u64,
    /// Time that each layer takes, in milliseconds.
    pub slow_layers: u64,
    /// Place at which the daemon is killed, each time.
    pub die: Option<Die>,
    /// Kill it at that place once.
    pub die_once: bool,
    /// Number of messages since the start at which the daemon is killed, once; the file with all faults is
    /// removed.
    pub die_at: Option<u64>,
    /// Send the result before the answer to the start.
    pub early_result: bool,
    /// Time after which a connected peer is disconnected, in milliseconds; 0 for 30 seconds.
    pub linger: u64,
    /// Start transactions, and send no signal.
    pub mute: bool,
    /// Complete a cancelled transaction.
    pub deaf: bool,
    /// Report success without doing anything.
    pub lie: bool,
    /// A script of layered packages fails.
    pub script_fails: bool,
    /// Take a cancellation of the transaction into account after it has staged its deployment.
    pub cancelled_late: bool,
}

/// Place at which the daemon is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Die {
    /// When a client registers.
    AtRegister,
    /// When a method is called.
    AtCall,
    /// After the answer to a method, when a peer connects to the transaction.
    BeforeStart,
    /// Between pulling and staging.
    Midway,
    /// Between staging and the check of the staged deployment.
    AfterStaging,
    /// After the work, before any peer is notified.
    BeforeFinished,
}

impl Faults {
    /// Faults in the file now; none if it does not exist.
    #[must_use]
    pub fn load(path: &Path) -> Self {
        let text = std::fs::read(path).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Kill the process if the faults name this place.
    pub(crate) fn reach(&self, path: &Path, place: Die) {
        if self.die == Some(place) {
            if self.die_once {
                // The next process must have no faults.
                let _ = std::fs::remove_file(path);
            }
            die();
        }
    }
}

static MESSAGES: AtomicU64 = AtomicU64::new(0);

/// Count a message, and kill the process if the faults name its number.
pub(crate) fn boundary(path: &Path) {
    let passed = MESSAGES.fetch_add(1, Ordering::SeqCst);
    if Faults::load(path).die_at == Some(passed) {
        // The next process must have no faults.
        let _ = std::fs::remove_file(path);
        die();
    }
}

/// Kill the process without a reply, like the OOM killer.
fn die() -> ! {
    let own = rustix::process::getpid();
    // Abort if the signal cannot be sent.
    let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
    std::process::abort();
}
