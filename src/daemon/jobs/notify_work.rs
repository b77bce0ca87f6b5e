//! Job that runs the hooks of notifications.

use std::process::{Command, Stdio};

use crate::core::values::causes::chain;
use crate::core::values::identifiers::ConfigName;
use crate::host::Root;
use crate::host::memory_file::MemoryFile;
use crate::transaction::grant::hooks;
use crate::transaction::state::settings::settings_or_default;

/// The running version of this program, even if the file was replaced since it started.
const PROGRAM: &str = "/proc/self/exe";

/// Run the hooks, with what `flameholder status -o json` prints on their standard input.
pub(in crate::daemon) fn notify(root: &Root, phase: &str, config: Option<&ConfigName>) {
    let mut status = Command::new(PROGRAM);
    status.args(["status", "-o", "json"]).stdin(Stdio::null()).stderr(Stdio::null());
    match status.output().and_then(|output| MemoryFile::of("status", &output.stdout)) {
        Ok(status) => hooks::notify(root, settings_or_default(root).hooks.timeout(), phase, config, status),
        Err(error) => log::warn!("no hook is notified: {error}", error = chain(&error)),
    }
}
