//! Runs the executable under test.

use std::{ffi::OsStr, time::Duration};

use crate::executables;

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

/// The executable under test.
pub fn program() -> String {
    executables::flameholder().into_os_string().into_string().expect("an executable's path in UTF-8")
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
