//! Errors of the reboot policy.

use crate::core::daemon::grant::GrantWait;
use crate::core::values::backoff::RetryClass;
use crate::host::facts::fleet_identity::NoIdentity;
use crate::host::facts::time_zone::UnknownTimeZone;

/// Reboot policy that cannot be followed. Nothing was disrupted.
#[derive(Debug, thiserror::Error)]
pub enum GrantError {
    #[error(transparent)]
    UnknownTimeZone(#[from] UnknownTimeZone),
    #[error(transparent)]
    NoIdentity(#[from] NoIdentity),
    #[error(
        "`reboot-lock.protocol` is `fleet-lock`, and no fragment names its server: set `reboot-lock.server`"
    )]
    NoServer,
    #[error(
        "`reboot-lock.protocol` is `lease`, and leases cannot be named after the group {0}: set `reboot-lock.group` to small letters, digits and `-`, at most 63"
    )]
    LeaseGroup(String),
    /// The slot was lost, or cannot be renewed, in the middle of a disruption.
    #[error("the host is not disrupted further without its slot: {0}")]
    NotHeld(GrantWait),
    /// The slot of an update that has ended is still held.
    #[error("the slot of {lock} is not given back yet: {reason}")]
    NotReleased { lock: String, reason: String },
}

impl GrantError {
    pub(crate) fn retry_class(&self) -> RetryClass {
        match self {
            Self::NotHeld(_) | Self::NotReleased { .. } => RetryClass::Time,
            Self::UnknownTimeZone(_) | Self::NoIdentity(_) | Self::NoServer | Self::LeaseGroup(_) => {
                RetryClass::Repair
            }
        }
    }
}
