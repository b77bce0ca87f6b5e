//! Items of the status about deployments and their generations.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::core::history::HistoryEvent;
use crate::core::history::history_log::HistoryLog;
use crate::core::image_policy::SignatureVerdict;
use crate::core::state::blocked::{BlockedTarget, TargetIdentity};
use crate::core::state::record::GenerationRecord;
use crate::core::values::identifiers::{
    COMMIT, ConfigDigest, ConfigName, DIGEST, GenerationId, IMAGE, STATEROOT,
};
use crate::core::values::kernel_arguments::KernelArguments;

/// Generation as its record describes it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GenerationItem {
    /// Generation ID: 128 bits in hexadecimal digits.
    pub generation: GenerationId,
    /// `metadata.name` of its config.
    pub config: ConfigName,
    /// Canonical digest of the config.
    pub config_hash: ConfigDigest,
    /// Image of on-cluster layering used in place of the config's `osImageURL`; absent where the latter is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layered_image: Option<String>,
    /// True if the record names the deployment that holds it; false for a foreign deployment, whose `/etc`
    /// was merged from a generation.
    pub record_matches: bool,
    /// True if the deployment is staged, and gets record and configuration when it is finalized.
    pub at_finalization: bool,
    /// Time at which it was applied or staged, by the history; null where that does not tell.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub applied: Option<Timestamp>,
    /// Time at which it was confirmed, by the history; null where that does not tell.
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub confirmed: Option<Timestamp>,
    /// Verdict on the signature of its OS image at the pull; null where it was not pulled for a generation.
    pub signature: Option<SignatureVerdict>,
    /// Parts of the config that were not applied, each with the reason.
    #[schemars(inner(length(min = 1)))]
    pub unsupported: Vec<String>,
    /// Files that activation puts in place, each with the reason.
    #[schemars(inner(length(min = 1)))]
    pub deferred: Vec<String>,
}

/// Deployment of a sysroot.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentItem {
    /// True for the deployment that the next boot starts: the first in boot order that is not locked.
    pub next: bool,
    /// True if the deployment is the running system.
    pub booted: bool,
    /// True if the deployment is finalized at shutdown, unless it is locked.
    pub staged: bool,
    /// True if the deployment is staged and must be unlocked before it is finalized.
    pub locked: bool,
    /// True for the generation that `flameholder rollback` goes back to.
    pub rollback: bool,
    /// True if `ostree admin pin` keeps the deployment.
    pub pinned: bool,
    /// Stateroot, whose `/var` the deployment shares.
    #[schemars(regex(pattern = STATEROOT))]
    pub stateroot: String,
    /// OSTree commit checksum, 64 hex digits.
    #[schemars(regex(pattern = COMMIT))]
    pub commit: String,
    /// Number that tells deployments of one commit apart.
    pub serial: u32,
    /// Version in the image's metadata.
    pub version: Option<String>,
    /// Container image of the origin, with scheme and transport; null for a plain OSTree commit.
    #[schemars(regex(pattern = IMAGE))]
    pub image: Option<String>,
    /// Digest of the image's manifest.
    #[schemars(regex(pattern = DIGEST))]
    pub manifest_digest: Option<String>,
    /// Kernel arguments of the boot entry, without `ostree=`; a quoted one is one item, with its quotes.
    #[schemars(with = "Vec<String>", inner(length(min = 1)))]
    pub kernel_arguments: KernelArguments,
    /// Generation whose record is in its `/etc`, or will be when it is finalized.
    pub generation: Option<GenerationItem>,
}

impl GenerationItem {
    /// Describe a record; `record_matches` is true if it names the deployment that holds it.
    #[must_use]
    pub fn of(record: &GenerationRecord, record_matches: bool) -> Self {
        Self {
            generation: record.generation.clone(),
            config: record.config.clone(),
            config_hash: record.config_hash.clone(),
            layered_image: record.layered_image.clone(),
            applied: None,
            confirmed: None,
            record_matches,
            at_finalization: false,
            signature: record.deployment.as_ref().and_then(|applied| applied.signature.clone()),
            unsupported: record.unsupported.clone(),
            deferred: record.deferred.clone(),
        }
    }

    fn target(&self) -> TargetIdentity<'_> {
        TargetIdentity { config_hash: &self.config_hash, layered_image: self.layered_image.as_deref() }
    }

    /// Add the times that the history has.
    pub fn add_times(&mut self, log: &HistoryLog) {
        let is_own = |id: Option<&GenerationId>| id == Some(&self.generation);
        let last = |events: &[HistoryEvent]| {
            let mut entries = log.entries.iter();
            entries
                .rfind(|entry| is_own(entry.note.generation.as_ref()) && events.contains(&entry.event))
                .map(|entry| entry.time)
        };
        let applied =
            [HistoryEvent::Applied, HistoryEvent::Deployed, HistoryEvent::Staged, HistoryEvent::Adopted];
        let confirmed = last(&[HistoryEvent::Confirmed]);
        (self.applied, self.confirmed) = (last(&applied), confirmed);
    }

    /// Describe the generation of a staged deployment, whose record finalization writes.
    #[must_use]
    pub fn at_finalization(record: &GenerationRecord) -> Self {
        Self { at_finalization: true, ..Self::of(record, true) }
    }
}

/// Mark the generation that a rollback from the booted deployment goes back to: the next other one of its stateroot, in boot
/// order, unless it is blocked.
pub fn mark_rollback(deployments: &mut [DeploymentItem], blocked: Option<&BlockedTarget>) {
    let Some(booted) = deployments.iter().find(|item| item.booted) else { return };
    let stateroot = booted.stateroot.clone();
    let previous = deployments.iter_mut().find(|item| {
        let has_record = item.generation.as_ref().is_some_and(|generation| generation.record_matches);
        !item.booted && !item.staged && item.stateroot == stateroot && has_record
    });
    if let Some(item) = previous {
        let target = item.generation.as_ref().map(GenerationItem::target);
        item.rollback = blocked.is_none_or(|blocked| target != Some(blocked.identity()));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::core::state::blocked::SCHEMA;

    fn deployment(serial: u32, layered_image: &str) -> DeploymentItem {
        let generation = json!({
            "generation": format!("{serial:032}"), "config": "b", "configHash": "sha256:b", "recordMatches": true,
            "layeredImage": layered_image, "atFinalization": false, "applied": null, "confirmed": null,
            "signature": null, "unsupported": [], "deferred": [],
        });
        let item = json!({
            "next": serial == 0, "booted": serial == 0, "staged": false, "locked": false, "rollback": false,
            "pinned": false, "stateroot": "os", "commit": "c", "serial": serial, "version": null, "image": null,
            "manifestDigest": null, "kernelArguments": [], "generation": generation,
        });
        serde_json::from_value(item).unwrap()
    }

    #[test]
    fn layered_image_that_is_blocked_is_no_rollback_and_another_of_its_config_is() {
        let blocked = BlockedTarget {
            schema: SCHEMA,
            config: "b".into(),
            config_hash: "sha256:b".into(),
            layered_image: Some("os:2".into()),
            image_digest: None,
            generation: Some("0a".into()),
            reason: "it was rolled back".into(),
            failed_checks: Vec::new(),
            attempts: 1,
        };
        for (previous, expected) in [("os:1", true), ("os:2", false)] {
            let mut deployments = [deployment(0, "os:3"), deployment(1, previous)];
            mark_rollback(&mut deployments, Some(&blocked));
            assert_eq!(deployments.map(|item| item.rollback), [false, expected], "{previous}");
        }
    }
}
