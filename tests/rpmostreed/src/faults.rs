//! How it is to fail.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// What goes wrong. Nothing does by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[allow(clippy::struct_excessive_bools, reason = "switches")]
pub struct Faults {
    /// The text that transactions fail with once they have begun to pull.
    pub fail: Option<String>,
    /// The text that methods are refused with.
    pub refuse: Option<String>,
    /// How many milliseconds a transaction takes at least.
    pub slow: u64,
    /// Where it dies, each time.
    pub die: Option<Die>,
    /// It dies when so many messages have come and gone since its start; once, and all faults with it.
    pub die_at: Option<u64>,
    /// The result comes before the answer to the start.
    pub early_result: bool,
    /// After how many milliseconds a peer that stays is thrown out; 0 for the daemon's own 30 seconds.
    pub linger: u64,
    /// It starts transactions and says nothing any more.
    pub mute: bool,
    /// A cancelled transaction goes on all the same.
    pub deaf: bool,
    /// Says that it succeeded, and did nothing.
    pub lie: bool,
}

/// Where it dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Die {
    /// When somebody registers.
    AtRegister,
    /// When a method is called.
    AtCall,
    /// After a method was answered, when somebody connects.
    BeforeStart,
    /// Between pulling and staging.
    Midway,
    /// Once all is done, and nobody was told.
    BeforeFinished,
}

impl Faults {
    /// What the file says now. One that is missing says nothing.
    #[must_use]
    pub fn load(path: &Path) -> Self {
        let text = std::fs::read(path).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Dies where that is asked for.
    pub fn reach(&self, place: Die) {
        if self.die == Some(place) {
            die();
        }
    }
}

static MESSAGES: AtomicU64 = AtomicU64::new(0);

/// A message comes or goes.
pub(crate) fn boundary(path: &Path) {
    let passed = MESSAGES.fetch_add(1, Ordering::SeqCst);
    if Faults::load(path).die_at == Some(passed) {
        // Another one that is started is a good one.
        let _ = std::fs::remove_file(path);
        die();
    }
}

/// Without another word, as by the OOM killer.
fn die() -> ! {
    let own = rustix::process::getpid();
    // Where that is not possible, it dies by another signal.
    let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
    std::process::abort();
}
