//! Immediate reboot through systemd, without logind and its inhibitors.

use std::path::Path;
use std::time::Duration;

use crate::cli::output::terminal::say;
use crate::cli::{CliError, CommandOutcome};
use crate::host::systemd::pid1::Pid1Reboot;
use crate::host::systemd::reboot_error::{RebootBackend, RebootError};
use crate::transaction::TransactionError;

/// Longest expected shutdown. A reboot whose job was cancelled never happens, and no event tells so.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(900);

/// Ask systemd (PID 1) for an immediate reboot, and block until it happens: the calling unit must not finish,
/// or units ordered after it would start. Returns only if the request failed or the reboot did not happen; the
/// unit is then restarted and asks again.
pub(crate) fn reboot_immediately(why: &str) -> Result<CommandOutcome, CliError> {
    say(&format!("rebooting: {why}"));
    Pid1Reboot::of(Path::new("/")).reboot().map_err(TransactionError::from)?;
    std::thread::sleep(SHUTDOWN_TIMEOUT);
    let error = RebootError::NotPerformed { backend: RebootBackend::Pid1, after: SHUTDOWN_TIMEOUT };
    Err(TransactionError::from(error).into())
}
