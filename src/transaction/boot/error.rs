//! Errors around a boot of a generation: activation, boot check and rollback.

use crate::core::values::backoff::RetryClass;
use crate::core::values::identifiers::GenerationId;

/// Error around a boot of a generation.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// `/boot` is not mounted, so the default boot entry cannot be changed. Holds the seconds waited.
    #[error(
        "cannot change the boot entries: /boot/loader did not appear within {0} seconds; see `systemctl status boot.mount`"
    )]
    NoBootEntries(u64),
    /// The activation service did not write the configuration of a generation that booted without it.
    #[error(
        "generation {0} booted without its configuration, and flameholder-activate.service did not write it; see `journalctl -b -u flameholder-activate.service`"
    )]
    ConfigNotWritten(GenerationId),
}

impl BootError {
    pub(crate) fn retry_class(&self) -> RetryClass {
        match self {
            Self::NoBootEntries(_) | Self::ConfigNotWritten(_) => RetryClass::Repair,
        }
    }
}
