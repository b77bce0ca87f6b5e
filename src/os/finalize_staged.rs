//! Finalization of the staged deployment. libostree exports no function for it, so this runs the command
//! `ostree admin finalize-staged`, as libostree's own unit `ostree-finalize-staged.service` does.

use std::process::{Command, Stdio};

use crate::os::{OsError, RedactedCause};

const PROGRAM: &str = "ostree";
const ARGUMENTS: [&str; 2] = ["admin", "finalize-staged"];

/// Merge `/etc` into the staged deployment and write its boot entry, in the mount namespace of this process.
/// Does nothing if no deployment is staged or the staged one is locked.
pub fn finalize_staged() -> Result<(), OsError> {
    let doing = || format!("running `{PROGRAM} {}`", ARGUMENTS.join(" "));
    // Its output goes to the journal of the calling unit.
    let status = Command::new(PROGRAM).args(ARGUMENTS).stdin(Stdio::null()).status();
    let status = status.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => OsError::ToolMissing {
            doing: "finalizing the staged deployment".to_owned(),
            tool: "ostree".to_owned(),
            source: RedactedCause::new(&error.to_string()),
        },
        _ => OsError::Other { doing: doing(), source: RedactedCause::new(&error.to_string()) },
    })?;
    if status.success() {
        return Ok(());
    }
    let source = RedactedCause::new(&format!(
        "failed with {status}; see `journalctl -u ostree-finalize-staged.service`"
    ));
    Err(OsError::Other { doing: doing(), source })
}
