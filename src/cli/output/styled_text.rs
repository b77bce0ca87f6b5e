//! Text for a terminal, in styles. Characters that steer the terminal are replaced when text is added, so that no value
//! of a config or of another program can forge a style.

use std::fmt::Display;

use anstyle::{AnsiColor, Style};

use crate::core::values::foreign_text::harmless;

/// Purpose of a piece of text, which decides its style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextRole {
    Heading,
    Added,
    Removed,
    Changed,
    Faint,
    Alarm,
}

impl TextRole {
    fn style(self) -> Style {
        match self {
            Self::Heading => Style::new().bold(),
            Self::Added => AnsiColor::Green.on_default(),
            Self::Removed => AnsiColor::Red.on_default(),
            Self::Changed => AnsiColor::Yellow.on_default(),
            Self::Faint => Style::new().dimmed(),
            Self::Alarm => AnsiColor::Red.on_default().bold(),
        }
    }
}

/// Text with the escape sequences of its styles, and no others.
#[derive(Debug, Default)]
pub(crate) struct StyledText(String);

impl StyledText {
    pub(crate) fn push(&mut self, text: impl Display) -> &mut Self {
        self.0.push_str(&harmless(&text.to_string()));
        self
    }

    pub(crate) fn push_as(&mut self, role: TextRole, text: impl Display) -> &mut Self {
        let style = role.style();
        self.0.push_str(&format!("{style}{}{style:#}", harmless(&text.to_string())));
        self
    }

    /// Return the text with its escape sequences.
    pub(crate) fn as_ansi(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_styles_of_roles_have_escape_sequences() {
        let mut text = StyledText::default();
        text.push("db \x1b[31mdown\x1b[0m ").push_as(TextRole::Alarm, "\x1b[2mfailed");
        assert_eq!(text.as_ansi(), "db \u{fffd}[31mdown\u{fffd}[0m \x1b[1m\x1b[31m\u{fffd}[2mfailed\x1b[0m");
    }
}
