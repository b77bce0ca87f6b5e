//! Refusals of a config: every reason at once, each with the path of its field.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One error in a document, or one change that cannot be made in place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Refusal {
    /// Path in the `MachineConfig`, such as `spec.config.storage.files[3].mode`.
    pub field: String,
    /// One sentence: the error and, where it helps, the accepted values.
    #[schemars(length(min = 1))]
    pub reason: String,
}

impl Refusal {
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { field: field.into(), reason: reason.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
    pub fn one(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self(vec![Refusal::new(field, reason)])
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
