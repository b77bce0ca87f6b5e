//! ANSI colours for text on a terminal.

use std::io::IsTerminal;

/// Every escape sequence that [`TextPainter`] writes; the terminal filter lets no other one pass.
pub(crate) const SEQUENCES: [&str; 7] =
    ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[1;31m"];

/// Purpose of a piece of text, which decides its colour.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TextRole {
    Heading,
    Added,
    Removed,
    Changed,
    Faint,
    Alarm,
}

/// Colours text on a terminal, and leaves it unchanged elsewhere.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextPainter {
    colour: bool,
}

impl TextPainter {
    /// Decide for standard output: colour on a terminal, unless `NO_COLOR` is set.
    pub(crate) fn for_stdout() -> Self {
        let asked_not_to = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { colour: std::io::stdout().is_terminal() && !asked_not_to }
    }

    /// Return `text` in the colour of `role`.
    pub(crate) fn paint(self, role: TextRole, text: &str) -> String {
        if !self.colour {
            return text.to_owned();
        }
        let code = match role {
            TextRole::Heading => "1",
            TextRole::Added => "32",
            TextRole::Removed => "31",
            TextRole::Changed => "33",
            TextRole::Faint => "2",
            TextRole::Alarm => "1;31",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}
