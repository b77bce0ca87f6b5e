//! Refusals of a config: every reason at once, each with the path of its field.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::values::foreign_text::{harmless, harmless_line};

/// One error in a document, or one change that cannot be made in place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Refusal {
    /// Path in the `MachineConfig`, such as `spec.config.storage.files[3].mode`.
    pub field: String,
    /// One sentence: the error and, where it helps, the accepted values.
    #[schemars(length(min = 1))]
    pub reason: String,
    /// Place in the text of the document, where the parser knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<TextPlace>,
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
        Self { field, reason: harmless(reason.as_ref()).into_owned(), place: None }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = self.place {
            write!(f, "{place}: ")?;
        }
        if self.field.is_empty() {
            return f.write_str(&self.reason);
        }
        write!(f, "{}: {}", self.field, self.reason)
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

    /// Describe the refusals of the document in `file`, so that an editor finds the place: `FILE:LINE:COLUMN: …`.
    #[must_use]
    pub fn in_file(&self, file: &str) -> String {
        match self.0.as_slice() {
            [Refusal { place: Some(TextPlace { line, column }), reason, .. }] => {
                format!("{file}:{line}:{column}: {reason}")
            }
            _ => format!("{file} is refused: {self}"),
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
            if self.0.len() > LISTED {
                write!(f, "\n  and {} more", self.0.len() - LISTED)?;
            }
            return Ok(());
        };
        only.fmt(f)
    }
}
