//! Waits for a grant: a window, a slot of the lock, a hook.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest wait for a window at a time. The clock can be set meanwhile, and the settings can change.
const WINDOW_WAIT: Duration = Duration::from_secs(60);

/// Subject of the wait before a disruption.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "kind")]
pub enum GrantWait {
    /// The next reboot window.
    Window {
        /// Time at which it opens.
        #[schemars(with = "String", extend("format" = "date-time"))]
        opens: Timestamp,
    },
    /// A slot of the lock.
    Slot {
        /// Lock, with its group.
        lock: String,
        /// Reason of the server, or error of the request.
        reason: String,
    },
    /// Another attempt to drain the node.
    Drain {
        /// The last thing that the drain waited for.
        reason: String,
    },
    /// The end of a hook without an error.
    Hook {
        /// File name of the program.
        name: String,
        reason: String,
    },
}

impl GrantWait {
    /// Return the time until the next attempt, at `now`: for all but windows it is `interval`, by up to half of it longer or
    /// shorter. Hosts of a fleet must not ask together, nor when their window opens, so that `jitter`, a number from 0 to
    /// 1,000, spreads them.
    #[must_use]
    pub fn delay(&self, now: Timestamp, interval: Duration, jitter: u32) -> Duration {
        match self {
            Self::Window { opens } => {
                let left = Duration::try_from(opens.duration_since(now)).unwrap_or_default();
                if left >= WINDOW_WAIT {
                    return WINDOW_WAIT;
                }
                // A moment later than the window, so that it is open for certain.
                left + Duration::from_secs(1) + interval * jitter / 2000
            }
            Self::Slot { .. } | Self::Drain { .. } | Self::Hook { .. } => interval * (500 + jitter) / 1000,
        }
    }
}

impl fmt::Display for GrantWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Window { opens } => write!(f, "the reboot window that opens {opens:.0}"),
            Self::Slot { lock, reason } => write!(f, "a slot of {lock}: {reason}"),
            Self::Drain { reason } => {
                write!(f, "another attempt to drain the node, which took too long: it waited for {reason}")
            }
            Self::Hook { name, reason } => write!(f, "the hook {name}: {reason}"),
        }
    }
}

/// Wait for a grant, and the time until the next attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantDelay {
    pub waits_for: GrantWait,
    pub retry_after: Duration,
}
