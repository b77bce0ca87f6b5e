//! Writers for standard output and standard error. Text of a config, of a file name or of another program must not steer
//! the terminal that shows it.

use std::io::Write;

use anstream::AutoStream;
use log::LevelFilter;

use crate::cli::CliError;
use crate::cli::output::styled_text::StyledText;
use crate::core::values::foreign_text::harmless;

/// Write a result to standard output; a full disk or a closed pipe is an error, not a panic.
pub(crate) fn write_out(text: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(CliError::Output)
}

/// Write text to standard output, without characters that steer the terminal.
pub(crate) fn print_text(text: &str) -> Result<(), CliError> {
    write_out(&harmless(text))
}

/// Write text to standard output, with its styles where that is a terminal which shows them.
pub(crate) fn print_styled(text: &StyledText) -> Result<(), CliError> {
    let mut out = AutoStream::auto(std::io::stdout()).lock();
    out.write_all(text.as_ansi().as_bytes()).and_then(|()| out.flush()).map_err(CliError::Output)
}

/// Write a warning to standard error, unless only results and errors are asked for.
pub(crate) fn warn(line: &str) {
    if log::max_level() >= LevelFilter::Warn {
        say(&format!("warning: {line}"));
    }
}

/// Write a remark to standard error, unless only results and errors are asked for.
pub(crate) fn note(line: &str) {
    if log::max_level() >= LevelFilter::Info {
        say(&format!("note: {line}"));
    }
}

/// Write a line to standard error, without characters that steer the terminal. Failure is ignored: an error of
/// standard error has no other place to be reported.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", harmless(line));
}
