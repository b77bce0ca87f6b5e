//! Runs the executable under test.

use std::{ffi::OsStr, time::Duration};

/// Longer than any command here may take; a hang becomes a failure with a name.
const LIMIT: Duration = Duration::from_secs(120);

/// How a run ended.
#[derive(Debug)]
pub struct Outcome {
    /// Exit code; `None` after a signal or when the time was up.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// The executable under test: the one that was built with the tests, or the one that `FLAMEHOLDER_BINARY` names.
pub fn program() -> String {
    std::env::var("FLAMEHOLDER_BINARY").unwrap_or_else(|_| env!("CARGO_BIN_EXE_flameholder").to_owned())
}

/// Runs `flameholder` with these arguments to its end.
pub fn flameholder<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Outcome {
    launch(&program(), arguments)
}

/// Runs any program to its end.
pub fn launch<A: AsRef<OsStr>>(program: &str, arguments: impl IntoIterator<Item = A>) -> Outcome {
    let output = assert_cmd::Command::new(program).args(arguments).timeout(LIMIT).output();
    let output = output.expect("a program that starts");
    Outcome {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
