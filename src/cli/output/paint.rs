//! Colour, only where a person looks at it.

use std::io::IsTerminal;

/// Every sequence that we write.
pub(crate) const SEQUENCES: [&str; 7] =
    ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[1;31m"];

/// What a piece of text is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Role {
    Heading,
    Added,
    Removed,
    Changed,
    Faint,
    Alarm,
}

/// Paints, or leaves text as it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint {
    colour: bool,
}

impl Paint {
    /// For standard output: colour on a terminal, unless `NO_COLOR` is set.
    pub(crate) fn for_stdout() -> Self {
        let asked_not_to = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { colour: std::io::stdout().is_terminal() && !asked_not_to }
    }

    /// `text` as `role`.
    pub(crate) fn paint(self, role: Role, text: &str) -> String {
        if !self.colour {
            return text.to_owned();
        }
        let code = match role {
            Role::Heading => "1",
            Role::Added => "32",
            Role::Removed => "31",
            Role::Changed => "33",
            Role::Faint => "2",
            Role::Alarm => "1;31",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}
