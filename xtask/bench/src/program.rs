//! Command lines as a reader types them, for error messages.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// Render the program by its file name, and its arguments, separated by spaces.
pub fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program());
    let words = std::iter::once(name).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}
