//! Runs of the executable under test.

use std::ffi::OsStr;
use std::time::Duration;

use crate::executables;

/// Longest run of a command, so that one that hangs fails.
const LIMIT: Duration = Duration::from_secs(120);

/// Result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Exit code; `None` after a signal or a timeout.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    /// First line of the output: the title or the verdict.
    pub fn first_line(&self) -> &str {
        self.stdout.lines().next().unwrap_or_default()
    }
}

/// Path of the executable under test.
pub fn program() -> String {
    executables::flameholder().into_os_string().into_string().expect("an executable's path in UTF-8")
}

/// Run `flameholder` with these arguments to its end.
pub fn flameholder<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Outcome {
    launch(&program(), arguments)
}

/// Run any program to its end.
pub fn launch<A: AsRef<OsStr>>(program: &str, arguments: impl IntoIterator<Item = A>) -> Outcome {
    let output = assert_cmd::Command::new(program).args(arguments).timeout(LIMIT).output();
    let output = output.expect("a program that starts");
    Outcome {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
