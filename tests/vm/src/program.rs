//! Programs of this machine and of the builder tree.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

/// Return a command that runs a program of a Debian tree on this machine, with the tree's own loader and
/// libraries.
#[must_use]
pub fn of_tree(tree: &Path, program: &str) -> Command {
    let mut command = Command::new(tree.join("lib64/ld-linux-x86-64.so.2"));
    command.arg("--library-path").arg(tree.join("usr/lib/x86_64-linux-gnu")).arg(tree.join(program));
    command
}

/// Run a command without input, and return its standard output.
///
/// # Errors
/// The program does not start or fails; the error has its standard error.
pub fn read(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("starting {shown}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{shown} failed with {}:\n{stderr}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Format a command as program and arguments, separated by spaces.
#[must_use]
pub fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}
