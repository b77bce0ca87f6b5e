//! Writers for standard output and standard error. Text of a config, of a file name or of another program must not steer
//! the terminal that shows it.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use anstream::AutoStream;
use log::LevelFilter;

use crate::cli::CliError;
use crate::cli::output::charset::in_locale;
use crate::cli::output::styled_text::{StyledText, TextRole};
use crate::core::values::foreign_text::harmless;

/// True once a result was written.
static HAS_RESULT: AtomicBool = AtomicBool::new(false);

/// Return true if a result, or a part of one, was written to standard output.
pub(crate) fn has_result() -> bool {
    HAS_RESULT.load(Ordering::Relaxed)
}

/// Write a result to standard output as it is; a full disk or a closed pipe is an error, not a panic.
pub(crate) fn write_out(text: &str) -> Result<(), CliError> {
    HAS_RESULT.store(true, Ordering::Relaxed);
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(CliError::Output)
}

/// Write text to standard output, without characters that steer the terminal, or that the locale lacks.
pub(crate) fn print_text(text: &str) -> Result<(), CliError> {
    write_out(&in_locale(&harmless(text)))
}

/// Write text to standard output, with its styles where that is a terminal which shows them.
pub(crate) fn print_styled(text: &StyledText) -> Result<(), CliError> {
    let mut out = AutoStream::auto(std::io::stdout()).lock();
    let text = in_locale(text.as_ansi());
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(CliError::Output)
}

/// Write an error to standard error.
pub(crate) fn error(message: &str) {
    say_styled(StyledText::default().push_as(TextRole::Alarm, "error:").push(format!(" {message}")));
}

/// Write a warning to standard error, unless only results and errors are asked for.
pub(crate) fn warn(line: &str) {
    if log::max_level() >= LevelFilter::Warn {
        say_styled(StyledText::default().push_as(TextRole::Changed, "warning:").push(format!(" {line}")));
    }
}

/// Write a remark to standard error, unless only results and errors are asked for.
pub(crate) fn note(line: &str) {
    if log::max_level() >= LevelFilter::Info {
        say(&format!("note: {line}"));
    }
}

/// Write a line to standard error, without characters that steer the terminal.
pub(crate) fn say(line: &str) {
    say_styled(StyledText::default().push(line));
}

/// Write a line to standard error, with its styles where that is a terminal which shows them. Failure is ignored: an error
/// of standard error has no other place to be reported.
fn say_styled(line: &StyledText) {
    let mut out = AutoStream::auto(std::io::stderr()).lock();
    let _ = writeln!(out, "{}", in_locale(line.as_ansi()));
}
