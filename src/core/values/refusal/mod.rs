//! Refusals of a config: every reason at once, each with the path of its field.

mod field_places;
mod source_excerpt;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::source_excerpt::SourceExcerpt;
use crate::core::values::foreign_text::harmless_line;

/// One error in a document, or one change that cannot be made in place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Refusal {
    /// Path in the `MachineConfig`, such as `spec.config.storage.files[3].mode`.
    pub field: String,
    /// One sentence: the error and, where it helps, the accepted values.
    #[schemars(length(min = 1))]
    pub reason: String,
    /// Place in the text of the document, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<TextPlace>,
    /// Piece of the line, for readers at a terminal.
    #[serde(skip)]
    pub excerpt: Option<SourceExcerpt>,
}

/// Place in a text; both numbers count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct TextPlace {
    pub line: u64,
    /// Character in the line.
    pub column: u64,
}

impl fmt::Display for TextPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

impl Refusal {
    /// Create a refusal. Keys of the document are part of a field: characters that steer a terminal are replaced.
    pub fn new(field: impl AsRef<str>, reason: impl AsRef<str>) -> Self {
        let field = harmless_line(field.as_ref()).into_owned();
        Self { field, reason: harmless_line(reason.as_ref()).into_owned(), place: None, excerpt: None }
    }
}

impl Refusal {
    /// Describe the refusal in one line, so that an editor finds the place: `FILE:LINE:COLUMN: FIELD: REASON`.
    fn in_file(&self, file: &str) -> String {
        let place = self.place.map(|TextPlace { line, column }| format!(":{line}:{column}"));
        format!("{file}{}: {}", place.unwrap_or_default(), self.without_place())
    }

    fn without_place(&self) -> String {
        let Self { field, reason, .. } = self;
        if field.is_empty() { reason.clone() } else { format!("{field}: {reason}") }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = self.place {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.without_place())
    }
}

/// All refusals of one document. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct RefusalList(Vec<Refusal>);

/// Number of refusals that a message lists; the rest is counted. A reader at a terminal must still see the
/// first one.
const LISTED: usize = 20;

impl RefusalList {
    /// A document refused for a single reason.
    pub fn one(field: impl AsRef<str>, reason: impl AsRef<str>) -> Self {
        Self(vec![Refusal::new(field, reason)])
    }

    /// A document whose text is wrong at this place.
    pub fn at(place: Option<TextPlace>, reason: impl AsRef<str>) -> Self {
        Self(vec![Refusal { place, ..Refusal::new("", reason) }])
    }

    /// Add the places of the fields in `document`, whose problems these are, and sort them by place.
    #[must_use]
    pub fn placed_in(mut self, document: &[u8]) -> Self {
        if let Ok(text) = std::str::from_utf8(document) {
            field_places::locate(&mut self.0, text);
            self.0.sort_by_key(|refusal| refusal.place.map(|TextPlace { line, column }| (line, column)));
        }
        self
    }

    /// Describe the refusals of the document in `file`.
    #[must_use]
    pub fn in_file(&self, file: &str) -> String {
        match self.0.as_slice() {
            [only] => only.in_file(file),
            _ => format!("{file} is refused: {self}"),
        }
    }

    /// Describe the refusals of the document in `file` to a reader at a terminal: each with its place and a piece of its
    /// line.
    #[must_use]
    pub fn explained_in(&self, file: &str) -> String {
        let explained = |refusal: &Refusal| {
            let excerpt = refusal.excerpt.as_ref().map(|excerpt| format!("\n{excerpt}")).unwrap_or_default();
            format!("{}{excerpt}", refusal.in_file(file))
        };
        if let [only] = self.0.as_slice() {
            return explained(only);
        }
        let lines = self
            .0
            .iter()
            .take(LISTED)
            .map(|refusal| format!("\n{}", explained(refusal)).replace('\n', "\n  "));
        format!(
            "{file}: {} problems; nothing is changed{}{}",
            self.0.len(),
            lines.collect::<String>(),
            self.rest()
        )
    }

    /// Count the refusals that a message does not list.
    fn rest(&self) -> String {
        match self.0.len().saturating_sub(LISTED) {
            0 => String::new(),
            more => format!("\n  and {more} more"),
        }
    }

    /// The refusals in the order found.
    #[must_use]
    pub fn as_slice(&self) -> &[Refusal] {
        &self.0
    }

    /// Return `value` if nothing was refused.
    pub fn or<T>(found: Vec<Refusal>, value: T) -> Result<T, Self> {
        if found.is_empty() { Ok(value) } else { Err(Self(found)) }
    }
}

impl fmt::Display for RefusalList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [only] = self.0.as_slice() else {
            write!(f, "{} problems:", self.0.len())?;
            for refusal in self.0.iter().take(LISTED) {
                write!(f, "\n  {refusal}")?;
            }
            return f.write_str(&self.rest());
        };
        only.fmt(f)
    }
}
