//! Writers for standard output and standard error. Control characters are replaced: the text of a config or a
//! file name must not steer the terminal that shows it.

use std::io::Write;

use crate::cli::CliError;
use crate::cli::output::paint::SEQUENCES;

/// Write a result to standard output; a full disk or a closed pipe is an error, not a panic.
pub(crate) fn write_out(text: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(CliError::Output)
}

/// Write text to standard output, without control characters.
pub(crate) fn print_text(text: &str) -> Result<(), CliError> {
    write_out(&harmless(text))
}

/// Write a line to standard error, without control characters. Failure is ignored: an error of standard error
/// has no other place to be reported.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", harmless(line));
}

/// Replace every character that moves the cursor, rings the bell or changes the text direction. Line feeds,
/// tabs and the sequences of [`SEQUENCES`] stay.
fn harmless(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        if let Some(colour) = colour_at(rest) {
            clean.push_str(colour);
            rest = rest.get(colour.len()..).unwrap_or_default();
            continue;
        }
        let steers = character.is_control() && !matches!(character, '\n' | '\t');
        clean.push(if steers || is_bidi(character) { char::REPLACEMENT_CHARACTER } else { character });
        rest = rest.get(character.len_utf8()..).unwrap_or_default();
    }
    clean
}

/// Return the colour sequence at the start of `text`, if it is one of [`SEQUENCES`]. Other sequences could
/// hide text.
fn colour_at(text: &str) -> Option<&'static str> {
    SEQUENCES.into_iter().find(|sequence| text.starts_with(sequence))
}

fn is_bidi(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::harmless;

    #[test]
    fn only_own_colour_sequences_pass_the_filter() {
        for (text, shown) in [
            ("a\tb\n", "a\tb\n"),
            ("\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m"),
            ("\x1b[8mhidden", "\u{fffd}[8mhidden"),
            ("\x1b[2J\x07", "\u{fffd}[2J\u{fffd}"),
            ("\x1b]0;title\x07", "\u{fffd}]0;title\u{fffd}"),
            ("\u{9b}31m", "\u{fffd}31m"),
            ("\u{202e}txt", "\u{fffd}txt"),
            ("\x1b[", "\u{fffd}["),
            ("r\rx", "r\u{fffd}x"),
        ] {
            assert_eq!(harmless(text), shown, "{text:?}");
        }
    }
}
