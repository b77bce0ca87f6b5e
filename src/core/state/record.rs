//! The record of what was applied: written with a generation, believed only where it names the
//! deployment that it is found in.

use crate::core::values::paths::{ORIGINALS, ORIGINALS_OUTSIDE_ETC, RECORD};
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::core::values::deployment::DeploymentId;
use crate::core::values::names::ManagedPath;
use crate::core::values::own_document;
use crate::core::values::own_document::DocumentError;
use crate::core::values::profile::Profile;
use crate::core::values::tree::ContentDigest;

/// The version of the record that this release writes.
pub const SCHEMA: u32 = 1;

/// One generation's record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GenerationRecord {
    /// [`SCHEMA`] of the release that wrote it.
    pub schema: u32,
    /// The generation's own name: 128 random bits in hex. Commits and serials repeat, this does not.
    pub generation: String,
    /// Later generations of a host have greater numbers. 0 where an earlier release wrote the record.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sequence: u64,
    /// Name of the `MachineConfig`.
    pub config: String,
    /// Digest of the recorded configuration document.
    pub config_hash: String,
    /// The profile that it was applied with.
    pub profile: Profile,
    /// The deployment that it belongs to; absent on a tree without OSTree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment: Option<DeploymentRecord>,
    /// Boot ID of the system that wrote it.
    pub boot_id: String,
    /// The image of on-cluster layering that stands in for the configuration's own; absent where that is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layered_image: Option<String>,
    /// What it has outside `/etc`: a manifest in the store. Absent where there is nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<ContentDigest>,
    /// Parts of the config that were applied.
    pub applied: Vec<String>,
    /// What the config asks for and this generation does not have, with the reason.
    pub left_out: Vec<String>,
    /// Directories below `/etc` that exist only because something below them was applied.
    pub created_directories: Vec<ManagedPath>,
    /// Paths below `/etc` of which a pre-image is kept.
    pub originals: Vec<ManagedPath>,
    /// The SELinux labels that were given, by path and without the NUL that ends them on disk. None
    /// where there is no SELinux, or where an earlier release wrote the record.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<ManagedPath, String>,
}

/// The deployment that a record belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentRecord {
    /// OSTree's stateroot.
    pub stateroot: String,
    /// The commit.
    pub commit: String,
    /// The deploy serial.
    pub serial: u32,
    /// The image reference that was imported, where it came from one.
    pub image: Option<String>,
    /// Digest of the image's manifest.
    pub image_digest: Option<String>,
    /// The config's `osImageURL`, which an explicit reference may have stood in for.
    pub config_image: Option<String>,
    /// The config's kernel arguments, as they were set.
    pub kernel_arguments: Vec<String>,
    /// Those of them that others had set before: they stay when the config stops listing them.
    #[serde(default)]
    pub taken_over: Vec<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl DeploymentRecord {
    /// The deployment's name.
    #[must_use]
    pub fn id(&self) -> DeploymentId {
        DeploymentId { stateroot: self.stateroot.clone(), commit: self.commit.clone(), serial: self.serial }
    }
}

impl GenerationRecord {
    /// Whether it is about that deployment. libostree's merge carries records into deployments that
    /// others make.
    #[must_use]
    pub fn names(&self, deployment: &DeploymentId) -> bool {
        self.deployment.as_ref().is_some_and(|bound| bound.id() == *deployment)
    }

    /// Parses a record. One of a later release is refused rather than guessed at.
    pub fn parse(bytes: &[u8]) -> Result<Self, RecordError> {
        own_document::parse(bytes, SCHEMA).map_err(|unreadable| match unreadable {
            DocumentError::Malformed(source) => RecordError::Malformed(source),
            DocumentError::Schema(schema) => RecordError::Schema(schema),
        })
    }

    /// The record as it is written: one line of JSON.
    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        own_document::render(self)
    }

    /// Where the pre-image of `path` is kept: under one flat name, since a path that is a file today
    /// may be a directory tomorrow.
    #[must_use]
    pub fn original_of(path: &ManagedPath) -> ManagedPath {
        let top = if path.is_within("/etc") { ORIGINALS } else { ORIGINALS_OUTSIDE_ETC };
        let name = ContentDigest::of(path.as_str().as_bytes()).to_string();
        ManagedPath::constant(top).join(name.trim_start_matches("sha256:"))
    }
}

/// Why a record cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Not a record, or a torn one.
    #[error("reading the generation record {RECORD}")]
    Malformed(#[source] serde_json::Error),
    /// Another release's.
    #[error(
        "the generation record {RECORD} has schema {0} and this release reads {SCHEMA}; use the release that wrote it"
    )]
    Schema(u32),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record as it was written before labels were kept.
    const WITHOUT_LABELS: &str = r#"{"schema":1,"generation":"0","config":"c","configHash":"sha256:1","profile":"native","bootId":"1","applied":[],"leftOut":[],"createdDirectories":[],"originals":[]}"#;

    #[test]
    fn labels_are_written_where_there_are_any_and_read_where_there_are_none() {
        let mut record = GenerationRecord::parse(WITHOUT_LABELS.as_bytes()).unwrap();
        assert_eq!(record.labels, BTreeMap::new());
        assert_eq!(record.render(), format!("{WITHOUT_LABELS}\n").into_bytes());
        record.labels.insert(ManagedPath::constant("/etc/a"), "system_u:object_r:etc_t:s0".to_owned());
        assert_eq!(GenerationRecord::parse(&record.render()).unwrap(), record);
    }
}
