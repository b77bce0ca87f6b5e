//! Answer to one question of the daemon, the command line and the first boot: which work remains until the
//! desired config is the current one.

use serde::{Deserialize, Serialize};

/// Remaining work of an update. `Live` and `Staged` describe that work: the transaction has its plan, the
/// daemon's state machine only its disruption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RemainingWork<Live = LiveDisruption, Staged = ()> {
    /// None: the desired config is the current one.
    Nothing,
    /// Applying a live update, without a reboot.
    Live(Live),
    /// Unlocking the staged deployment, and rebooting.
    Reboot(Staged),
}

/// Disruption by a live update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveDisruption {
    /// True if the node must be drained first.
    pub drain: bool,
}
