//! Record of an applied generation, kept in the `/etc` of its deployment. libostree's merge copies it into
//! every later deployment, so it is believed only where it names the deployment that holds it.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::core::image_policy::SignatureVerdict;
use crate::core::state::own_document;
use crate::core::state::own_document::{DocumentError, UpgradeStep, next_schema};
use crate::core::values::deployment::DeploymentId;
use crate::core::values::identifiers::{BootId, ConfigDigest, ConfigName, GenerationId};
use crate::core::values::kernel_arguments::KernelArguments;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::{ORIGINALS, ORIGINALS_OUTSIDE_ETC, RECORD, UNDONE};
use crate::core::values::profile::Profile;
use crate::core::values::tree::ContentDigest;

/// Record schema that this release writes. It also reads older ones.
pub const SCHEMA: u32 = 1 + next_schema::OFFSET;

/// Steps that upgrade a record, from schema 1 on.
const UPGRADES: &[UpgradeStep] = next_schema::UPGRADES;

/// Record of one generation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GenerationRecord {
    pub schema: u32,
    /// Generation's ID: 128 random bits in hex. Commits and deploy serials recur, IDs do not.
    pub generation: GenerationId,
    /// Number that grows with each generation of a host; 0 where an earlier release wrote the record.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sequence: u64,
    /// Name of the `MachineConfig`.
    pub config: ConfigName,
    /// Digest of the configuration document.
    pub config_hash: ConfigDigest,
    pub profile: Profile,
    /// Deployment that the record belongs to; absent on a tree without OSTree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment: Option<DeploymentRecord>,
    /// ID of the boot in which the record was written.
    pub boot_id: BootId,
    /// Image of on-cluster layering used in place of the config's `osImageURL`; absent where the latter is
    /// used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layered_image: Option<String>,
    /// Manifest of the managed files outside `/etc`, in the object store; absent where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<ContentDigest>,
    /// Names of the config's parts that were applied.
    pub applied: Vec<String>,
    /// Parts of the config that were not applied, each with the reason.
    pub unsupported: Vec<String>,
    /// Managed files outside `/etc` that activation puts in place, each with the reason.
    pub deferred: Vec<String>,
    /// Directories below `/etc` created for managed paths below them, removed with the last of those.
    pub created_directories: Vec<ManagedPath>,
    /// Paths below `/etc` that have a stored pre-image.
    pub originals: Vec<ManagedPath>,
    /// SELinux labels that were set, by path, without the terminating NUL. Empty where SELinux is off, or
    /// where an earlier release wrote the record.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<ManagedPath, String>,
}

/// Deployment that a record belongs to, with its image and kernel arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentRecord {
    pub stateroot: String,
    pub commit: String,
    /// OSTree's deploy serial, which tells deployments of one commit apart.
    pub serial: u32,
    /// Reference of the imported image; `None` where the deployment was not made from one.
    pub image: Option<String>,
    /// Digest of the image's manifest.
    pub image_digest: Option<String>,
    /// Verdict on the image's signature at its pull; absent where it was not pulled for a generation, or an earlier release
    /// wrote the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<SignatureVerdict>,
    /// `osImageURL` of the config; differs from `image` where an image was given explicitly.
    pub config_image: Option<String>,
    /// Kernel arguments of the config, as they were set.
    pub kernel_arguments: KernelArguments,
    /// Kernel arguments of the config that were set before by others: they stay when the config drops them.
    #[serde(default)]
    pub taken_over: KernelArguments,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl DeploymentRecord {
    #[must_use]
    pub fn id(&self) -> DeploymentId {
        DeploymentId { stateroot: self.stateroot.clone(), commit: self.commit.clone(), serial: self.serial }
    }
}

impl GenerationRecord {
    /// Return true if the record belongs to `deployment`; false for a copy that libostree's merge carried
    /// into a foreign deployment.
    #[must_use]
    pub fn names(&self, deployment: &DeploymentId) -> bool {
        self.deployment.as_ref().is_some_and(|deployed| deployed.id() == *deployment)
    }

    /// Parse a record; fail on a newer release's schema.
    pub fn parse(bytes: &[u8]) -> Result<Self, RecordError> {
        own_document::parse(bytes, SCHEMA, UPGRADES).map_err(|unreadable| match unreadable {
            DocumentError::Malformed(source) => RecordError::Malformed(source),
            DocumentError::Schema(schema) => RecordError::Schema(schema),
        })
    }

    /// Parse a record that is a member of another document, whose schema is another one.
    pub(crate) fn parse_member<'d, D: Deserializer<'d>>(member: D) -> Result<Self, D::Error> {
        own_document::parse_member(member, SCHEMA, UPGRADES)
    }

    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        own_document::render(self)
    }

    /// Return the path of the pre-image of `path`: one flat name, since a file's path today may be a
    /// directory's tomorrow.
    #[must_use]
    pub fn original_of(path: &ManagedPath) -> ManagedPath {
        flat(if path.is_within("/etc") { ORIGINALS } else { ORIGINALS_OUTSIDE_ETC }, path)
    }

    /// Return the path of the local version of `path` that was replaced last.
    #[must_use]
    pub fn undone_of(path: &ManagedPath) -> ManagedPath {
        flat(UNDONE, path)
    }
}

fn flat(top: &str, path: &ManagedPath) -> ManagedPath {
    let name = ContentDigest::of(path.as_str().as_bytes()).to_string();
    ManagedPath::constant(top).join(name.trim_start_matches("sha256:"))
}

/// Reason why a record cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Document that does not parse, for example after a torn write.
    #[error("reading the generation record {RECORD}; restore the file, or move it away to start over")]
    Malformed(#[source] serde_json::Error),
    /// Record that a newer release wrote.
    #[error(
        "the generation record {RECORD} has schema {0}, and this release reads schemas up to {SCHEMA}; use the release that wrote it, or move the file away to start over"
    )]
    Schema(u32),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Record in the format before SELinux labels were recorded.
    const WITHOUT_LABELS: &str = r#"{"schema":1,"generation":"0","config":"c","configHash":"sha256:1","profile":"native","bootId":"1","applied":[],"unsupported":[],"deferred":[],"createdDirectories":[],"originals":[]}"#;

    #[test]
    fn record_with_and_without_labels_renders_and_parses() {
        let mut record = GenerationRecord::parse(WITHOUT_LABELS.as_bytes()).unwrap();
        assert_eq!(record.labels, BTreeMap::new());
        assert_eq!(record.render(), format!("{WITHOUT_LABELS}\n").into_bytes());
        record.labels.insert(ManagedPath::constant("/etc/a"), "system_u:object_r:etc_t:s0".to_owned());
        assert_eq!(GenerationRecord::parse(&record.render()).unwrap(), record);
    }
}
