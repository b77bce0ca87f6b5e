//! libostree's own finalization of what is staged. It has no public call for that, only a command,
//! which is what its unit runs as well.

use std::process::{Command, Stdio};

use crate::os::{OsError, RedactedCause};

/// The program, and what its unit calls it with.
const PROGRAM: &str = "ostree";
const ARGUMENTS: [&str; 2] = ["admin", "finalize-staged"];

/// Merges `/etc` into the staged deployment and writes its boot entry, in the mount namespace of
/// this process. Where nothing is staged, or it is locked, nothing happens.
pub fn finalize_staged() -> Result<(), OsError> {
    let doing = || format!("running `{PROGRAM} {}`", ARGUMENTS.join(" "));
    // It speaks to the journal of the unit.
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
    let source = RedactedCause::new(&format!("it ended with {status}; see the journal of its unit"));
    Err(OsError::Other { doing: doing(), source })
}
