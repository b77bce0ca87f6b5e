//! Blocked target: a configuration that failed its boot check, that an operator rolled back from, or whose image was
//! rejected. It is not retried until the desired config changes or `flameholder retry` releases it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::state::boot_check::CheckResult;
use crate::core::state::own_document;
use crate::core::state::own_document::{DocumentError, UpgradeStep, next_schema};
use crate::core::values::identifiers::{ConfigDigest, ConfigName, GenerationId};

/// Path of the document: outside every deployment, so that neither update nor rollback changes it.
pub const BLOCKED: &str = "/var/lib/flameholder/blocked";

/// Document schema that this release writes. It also reads older ones.
pub const SCHEMA: u32 = 1 + next_schema::OFFSET;

/// Steps that upgrade the document, from schema 1 on.
const UPGRADES: &[UpgradeStep] = next_schema::UPGRADES;

/// Blocked target, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockedTarget {
    /// Version of the stored document.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: u32,
    /// Name of the `MachineConfig`.
    pub config: ConfigName,
    /// Digest of the configuration document.
    pub config_hash: ConfigDigest,
    /// Digest of the OS image's manifest; `None` where the config names no image.
    pub image_digest: Option<String>,
    /// Generation that was rolled back; `None` where none was made, since the image was rejected.
    pub generation: Option<GenerationId>,
    /// Reason, in one sentence without a full stop.
    pub reason: String,
    /// Checks of the boot check that failed, if one did.
    // With what their programs printed, which is lost with the boot otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_checks: Vec<CheckResult>,
    /// Number of rollbacks from this configuration, or of rejections.
    #[schemars(range(min = 1))]
    pub attempts: u32,
}

/// Reason for blocking a target.
#[derive(Debug, Clone, Copy)]
pub struct BlockReason<'a> {
    /// One sentence without a full stop.
    pub sentence: &'a str,
    /// Results of the boot check; those that failed are kept with the target.
    pub findings: &'a [CheckResult],
}

impl<'a> From<&'a str> for BlockReason<'a> {
    fn from(sentence: &'a str) -> Self {
        Self { sentence, findings: &[] }
    }
}

impl BlockReason<'_> {
    #[must_use]
    pub fn failed_checks(self) -> Vec<CheckResult> {
        self.findings.iter().filter(|finding| !finding.ok).cloned().collect()
    }
}

/// Image of an update, as far as it tells if the update is blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DesiredImage<'a> {
    /// Image with this digest.
    Pinned(&'a str),
    /// Tag in the configuration, or no image.
    OfConfig,
    /// Tag that was given beside the configuration.
    TagOfOption,
}

/// Reason why the document cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BlockedError {
    /// Document that does not parse.
    #[error("reading the blocked target {BLOCKED}")]
    Malformed(#[source] serde_json::Error),
    /// Document that a newer release wrote.
    #[error("the blocked target {BLOCKED} has schema {0}, and this release reads schemas up to {SCHEMA}")]
    Schema(u32),
}

impl BlockedTarget {
    /// Return true if the configuration with this digest is blocked. A rejected image is blocked in each configuration
    /// that pins it. A tag that was given beside the configuration may name another image now.
    #[must_use]
    pub fn blocks(&self, config_hash: &ConfigDigest, image: DesiredImage<'_>) -> bool {
        match (self.rejected_image(), image) {
            (Some(rejected), DesiredImage::Pinned(digest)) => rejected == digest,
            (Some(_), DesiredImage::TagOfOption) => false,
            (Some(_), DesiredImage::OfConfig) | (None, _) => self.config_hash == *config_hash,
        }
    }

    /// Return the digest of the image that was rejected.
    #[must_use]
    pub fn rejected_image(&self) -> Option<&str> {
        self.image_digest.as_deref().filter(|_| self.generation.is_none())
    }

    /// Return this target with its attempts counted on from `before`, where that is the same configuration.
    #[must_use]
    pub fn counting_after(self, before: Option<&Self>) -> Self {
        let earlier = before.filter(|before| before.config_hash == self.config_hash);
        Self { attempts: earlier.map_or(0, |before| before.attempts) + 1, ..self }
    }

    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        own_document::render(self)
    }

    pub fn parse(bytes: &[u8]) -> Result<Self, BlockedError> {
        own_document::parse(bytes, SCHEMA, UPGRADES).map_err(|unreadable| match unreadable {
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
            generation: Some("0a".into()),
            reason: "it was rolled back".into(),
            failed_checks: Vec::new(),
            attempts: 0,
        }
    }

    #[test]
    fn attempts_are_counted_per_target() {
        let first = held("a").counting_after(None);
        assert_eq!(first.attempts, 1);
        assert_eq!(held("a").counting_after(Some(&first)).attempts, 2);
        assert_eq!(held("b").counting_after(Some(&first)).attempts, 1);
        assert_eq!(BlockedTarget::parse(&first.render()).unwrap(), first);
        let image = DesiredImage::OfConfig;
        assert!(first.blocks(&"a".into(), image) && !first.blocks(&"b".into(), image));
    }

    #[test]
    fn rejected_image_is_blocked_in_each_configuration() {
        let image_digest = Some("sha256:1".to_owned());
        let rejected = BlockedTarget { generation: None, image_digest: image_digest.clone(), ..held("a") };
        let rolled_back = BlockedTarget { image_digest, ..held("a") };
        let [pinned, other] = ["sha256:1", "sha256:2"].map(DesiredImage::Pinned);
        for (target, hash, image, expected) in [
            (&rejected, "a", pinned, true),
            (&rejected, "b", pinned, true),
            (&rejected, "a", other, false),
            (&rejected, "a", DesiredImage::OfConfig, true),
            (&rejected, "b", DesiredImage::OfConfig, false),
            (&rejected, "a", DesiredImage::TagOfOption, false),
            (&rolled_back, "a", other, true),
            (&rolled_back, "a", DesiredImage::TagOfOption, true),
            // Another configuration may be healthy with that image.
            (&rolled_back, "b", pinned, false),
        ] {
            assert_eq!(target.blocks(&hash.into(), image), expected, "{target:?} {hash} {image:?}");
        }
    }

    #[test]
    fn unreadable_document_is_never_suggested_for_removal() {
        for bytes in [&b"{"[..], b"{\"schema\":9}"] {
            let message = BlockedTarget::parse(bytes).unwrap_err().to_string();
            assert!(message.contains(BLOCKED) && !message.contains("remove"), "{message}");
        }
    }
}
