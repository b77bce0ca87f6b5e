//! A target that was left again, and is not gone to a second time until somebody says so.

use serde::{Deserialize, Serialize};

use crate::core::values::own_document;
use crate::core::values::own_document::DocumentError;

/// Where it lies: outside every deployment, so that none brings it back or takes it away.
pub const HELD: &str = "/var/lib/flameholder/held";

/// The version that this release writes, and the only one that it reads.
pub const SCHEMA: u32 = 1;

/// The held target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockedTarget {
    /// [`SCHEMA`] of the release that wrote it.
    pub schema: u32,
    /// Name of the `MachineConfig`.
    pub config: String,
    /// Digest of its document.
    pub config_hash: String,
    /// Digest of the OS image's manifest, where it has one.
    pub image_digest: Option<String>,
    /// The generation that was left.
    pub generation: String,
    /// Why, in one sentence without a full stop.
    pub reason: String,
    /// How often it was left.
    pub attempts: u32,
}

/// Why it cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BlockedError {
    /// It does not parse.
    #[error("reading the held target {HELD}; `flameholder retry` removes it")]
    Malformed(#[source] serde_json::Error),
    /// Another release's.
    #[error(
        "the held target {HELD} has schema {0} and this release reads {SCHEMA}; `flameholder retry` removes it"
    )]
    Schema(u32),
}

impl BlockedTarget {
    /// Whether the configuration with this digest is held.
    #[must_use]
    pub fn is_about(&self, config_hash: &str) -> bool {
        self.config_hash == config_hash
    }

    /// The same after it was left once more.
    #[must_use]
    pub fn after(self, before: Option<&Self>) -> Self {
        let earlier = before.filter(|before| before.is_about(&self.config_hash));
        Self { attempts: earlier.map_or(0, |before| before.attempts) + 1, ..self }
    }

    /// The document as it is stored: one line of JSON.
    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        own_document::render(self)
    }

    /// Reads it.
    pub fn parse(bytes: &[u8]) -> Result<Self, BlockedError> {
        own_document::parse(bytes, SCHEMA).map_err(|unreadable| match unreadable {
            DocumentError::Malformed(source) => BlockedError::Malformed(source),
            DocumentError::Schema(schema) => BlockedError::Schema(schema),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(hash: &str) -> BlockedTarget {
        BlockedTarget {
            schema: SCHEMA,
            config: "worker".into(),
            config_hash: hash.into(),
            image_digest: None,
            generation: "0a".into(),
            reason: "it was rolled back".into(),
            attempts: 0,
        }
    }

    #[test]
    fn attempts_are_counted_per_target() {
        let first = held("a").after(None);
        assert_eq!(first.attempts, 1);
        assert_eq!(held("a").after(Some(&first)).attempts, 2);
        assert_eq!(held("b").after(Some(&first)).attempts, 1);
        assert_eq!(BlockedTarget::parse(&first.render()).unwrap(), first);
        assert!(first.is_about("a") && !first.is_about("b"));
    }

    #[test]
    fn what_cannot_be_read_says_the_way_out() {
        for bytes in [&b"{"[..], b"{\"schema\":2}"] {
            assert!(BlockedTarget::parse(bytes).unwrap_err().to_string().contains("flameholder retry"));
        }
    }
}
