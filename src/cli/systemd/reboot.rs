//! A reboot that nobody is asked about.

use std::path::Path;

use crate::cli::output::terminal::say;
use crate::cli::{CliError, Verdict};
use crate::host::systemd::pid1::Pid1Reboot;
use crate::transaction::TransactionError;

/// Reboots before anything else happens. This does not return where it works: whoever waits for this command would go
/// on.
pub(crate) fn reboot_at_once(why: &str) -> Result<Verdict, CliError> {
    say(&format!("rebooting: {why}"));
    Pid1Reboot::of(Path::new("/")).reboot().map_err(TransactionError::from)?;
    loop {
        std::thread::park();
    }
}
