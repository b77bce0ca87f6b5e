//! What a configuration was refused for: every reason at once, each with the path of its field.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One thing that is wrong with a document, or that cannot be changed in place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Refusal {
    /// Path in the `MachineConfig`, such as `spec.config.storage.files[3].mode`.
    pub field: String,
    /// One sentence: what is wrong and, where it helps, what is accepted.
    pub reason: String,
}

impl Refusal {
    /// A refusal of `field`.
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

/// All that is wrong with one document. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct RefusalList(Vec<Refusal>);

/// How many refusals a message lists before it only counts the rest: a reader at a terminal must
/// still see the first one.
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

    /// `value` where nothing was refused.
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
