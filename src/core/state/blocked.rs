//! Blocked target: a configuration that failed its boot check, that an operator rolled back from, or whose image was
//! rejected. It is not retried until the desired config changes or `flameholder retry` releases it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::state::boot_check::CheckResult;
use crate::core::state::own_document;
use crate::core::state::own_document::{DocumentError, UpgradeStep, next_schema};
use crate::core::state::record::GenerationRecord;
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
    /// Image of on-cluster layering used in place of the config's `osImageURL`; absent where the latter is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layered_image: Option<String>,
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
    /// Number of rollbacks from this target, or of rejections.
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

/// Configuration as a target of an update: one document with two images of on-cluster layering is two of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TargetIdentity<'a> {
    /// Digest of the configuration document.
    pub config_hash: &'a ConfigDigest,
    /// Image of on-cluster layering.
    pub layered_image: Option<&'a str>,
}

impl<'a> TargetIdentity<'a> {
    /// Return the target that a generation's record is of.
    #[must_use]
    pub fn of(record: &'a GenerationRecord) -> Self {
        Self { config_hash: &record.config_hash, layered_image: record.layered_image.as_deref() }
    }
}

impl BlockedTarget {
    /// Return the target that is blocked.
    #[must_use]
    pub fn identity(&self) -> TargetIdentity<'_> {
        TargetIdentity { config_hash: &self.config_hash, layered_image: self.layered_image.as_deref() }
    }

    /// Return true if this target is blocked. A rejected image is blocked in each configuration that pins it. A tag that was
    /// given beside the configuration may name another image now.
    #[must_use]
    pub fn blocks(&self, target: TargetIdentity<'_>, image: DesiredImage<'_>) -> bool {
        match (self.rejected_image(), image) {
            (Some(rejected), DesiredImage::Pinned(digest)) => rejected == digest,
            (Some(_), DesiredImage::TagOfOption) => false,
            (Some(_), DesiredImage::OfConfig) | (None, _) => self.identity() == target,
        }
    }

    /// Return the digest of the image that was rejected.
    #[must_use]
    pub fn rejected_image(&self) -> Option<&str> {
        self.image_digest.as_deref().filter(|_| self.generation.is_none())
    }

    /// Return this target with its attempts counted on from `before`, where that is the same one.
    #[must_use]
    pub fn counting_after(self, before: Option<&Self>) -> Self {
        let earlier = before.filter(|before| before.identity() == self.identity());
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
            layered_image: None,
            image_digest: None,
            generation: Some("0a".into()),
            reason: "it was rolled back".into(),
            failed_checks: Vec::new(),
            attempts: 0,
        }
    }

    fn target<'a>(config_hash: &'a ConfigDigest, layered_image: Option<&'a str>) -> TargetIdentity<'a> {
        TargetIdentity { config_hash, layered_image }
    }

    #[test]
    fn attempts_are_counted_per_target() {
        let first = held("a").counting_after(None);
        assert_eq!(first.attempts, 1);
        assert_eq!(held("a").counting_after(Some(&first)).attempts, 2);
        assert_eq!(held("b").counting_after(Some(&first)).attempts, 1);
        assert_eq!(BlockedTarget::parse(&first.render()).unwrap(), first);
        let blocks = |hash: &str| first.blocks(target(&hash.into(), None), DesiredImage::OfConfig);
        assert!(blocks("a") && !blocks("b"));
    }

    #[test]
    fn layered_image_is_blocked_alone_of_those_of_its_configuration() {
        let layered = |image: &str| BlockedTarget { layered_image: Some(image.to_owned()), ..held("a") };
        let first = layered("os@sha256:2").counting_after(None);
        assert_eq!(BlockedTarget::parse(&first.render()).unwrap(), first);
        let pinned = DesiredImage::Pinned("sha256:2");
        for (image, expected) in [(Some("os@sha256:2"), true), (Some("os@sha256:3"), false), (None, false)] {
            assert_eq!(first.blocks(target(&"a".into(), image), pinned), expected, "{image:?}");
        }
        assert_eq!(layered("os@sha256:2").counting_after(Some(&first)).attempts, 2);
        assert_eq!(layered("os@sha256:3").counting_after(Some(&first)).attempts, 1);
        let without = String::from_utf8(held("a").render()).unwrap();
        assert!(!without.contains("layeredImage"), "the document of a host without layering stays as it was");
    }

    #[test]
    fn rejected_image_is_blocked_in_each_configuration() {
        let image_digest = Some("sha256:1".to_owned());
        let rejected = BlockedTarget { generation: None, image_digest: image_digest.clone(), ..held("a") };
        let rolled_back = BlockedTarget { image_digest, ..held("a") };
        let [pinned, other] = ["sha256:1", "sha256:2"].map(DesiredImage::Pinned);
        for (blocked, hash, image, expected) in [
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
            let blocks = blocked.blocks(target(&hash.into(), None), image);
            assert_eq!(blocks, expected, "{blocked:?} {hash} {image:?}");
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
