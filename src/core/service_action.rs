//! What running services do to take up a change.

use serde::{Deserialize, Serialize};

/// One act on services.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "camelCase")]
pub enum ServiceAction {
    /// systemd rereads its unit files.
    DaemonReload,
    /// A unit rereads its configuration.
    Reload {
        /// The unit.
        unit: String,
    },
    /// A unit is restarted.
    Restart {
        /// The unit.
        unit: String,
    },
}
