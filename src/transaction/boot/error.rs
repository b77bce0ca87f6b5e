//! Errors around a boot of a generation: unlocking before it, activation, boot check and rollback after it.

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
    /// ostree's own `ExecStop=` would finalize the deployment without its configuration.
    #[error(
        "ExecStop= of {unit} is {instead}, not `flameholder finalize`: the generation would boot without its configuration, so it stays staged and locked; install {unit}.d/50-flameholder.conf, run `systemctl daemon-reload`, and apply again"
    )]
    FinalizeDropInMissing {
        unit: &'static str,
        /// Current value of `ExecStop=`.
        instead: String,
    },
    /// The activation service did not write the configuration of a generation that booted without it.
    #[error(
        "generation {0} booted without its configuration, and flameholder-activate.service did not write it; see `journalctl -b -u flameholder-activate.service`"
    )]
    ConfigNotWritten(GenerationId),
}

impl BootError {
    pub(crate) fn retry_class(&self) -> RetryClass {
        match self {
            Self::NoBootEntries(_) | Self::FinalizeDropInMissing { .. } | Self::ConfigNotWritten(_) => {
                RetryClass::Repair
            }
        }
    }
}
