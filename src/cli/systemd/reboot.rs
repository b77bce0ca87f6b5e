//! Immediate reboot through systemd, without logind and its inhibitors.

use std::path::Path;

use crate::cli::output::terminal::say;
use crate::cli::{CliError, CommandOutcome};
use crate::host::systemd::pid1::Pid1Reboot;
use crate::transaction::TransactionError;

/// Ask systemd (PID 1) for an immediate reboot, and block until it happens: the calling unit must not finish,
/// or units ordered after it would start. Returns only if the request failed.
pub(crate) fn reboot_immediately(why: &str) -> Result<CommandOutcome, CliError> {
    say(&format!("rebooting: {why}"));
    Pid1Reboot::of(Path::new("/")).reboot().map_err(TransactionError::from)?;
    loop {
        std::thread::park();
    }
}
