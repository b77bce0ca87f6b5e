//! Document of `etc-diff -o json` (`docs/schema/etc-diff.json`), and its summary in the document of `plan`.

use schemars::JsonSchema;
use serde::Serialize;

use crate::core::etc_merge::{
    LostChange, LostPart, MergeFindings, MergeItem, MergeRefusal, RefusalReason, display_path,
};
use crate::core::plan::{EtcPlan, MergeImage};
use crate::core::values::identifiers::{COMMIT, ETC_PATH};
use crate::core::values::tree::ChangeKind;

/// Value of the member `schema`.
const SCHEMA: u32 = 1;

/// Outcome of the three-way merge of `/etc`, by path.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcDiffDocument {
    /// Version of this document. Members may be added within a version; a member that changes its meaning
    /// makes a new one.
    #[schemars(extend("const" = SCHEMA))]
    schema: u32,
    /// Deployment whose `/etc` is merged; both sides are compared with its `/usr/etc`.
    from: DeploymentName,
    /// Deployment whose `/usr/etc` it is merged with. Equal to `from` if nothing is staged or pending, which
    /// shows local changes alone.
    to: DeploymentName,
    /// Local changes that the merged `/etc` has.
    kept: Vec<PathItem>,
    /// Changes of the image that the merged `/etc` has.
    from_image: Vec<PathItem>,
    /// Paths that both sides changed in different ways. The local side wins.
    conflicts: Vec<ConflictItem>,
    /// Local changes that the merged `/etc` does not have.
    losses: Vec<LossItem>,
    /// Changes of the image that the merged `/etc` does not have, although the path has no local change:
    /// libostree keeps local mode and owner of a directory with a changed entry, and may copy it as a whole.
    not_taken: Vec<PathItem>,
    /// Paths for which libostree refuses the merge: an update fails until they are removed. They are in no
    /// other list.
    refusals: Vec<RefusalItem>,
}

/// Identity of a deployment.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DeploymentName {
    /// Stateroot, whose `/var` the deployment shares.
    #[schemars(length(min = 1))]
    pub stateroot: String,
    /// OSTree commit checksum, 64 hex digits.
    #[schemars(regex(pattern = COMMIT))]
    pub commit: String,
    /// Number that tells deployments of one commit apart.
    pub serial: u32,
}

/// The merge as part of a plan: paths of losses and refusals, counts of all other outcomes.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcSummary {
    with: MergeImage,
    /// True if the plan makes a new deployment, and so needs this merge. Refusals by the next image then
    /// prevent the plan.
    due: bool,
    /// Number of local changes that stay.
    kept: usize,
    /// Number of image changes that arrive.
    from_image: usize,
    /// Number of paths that both sides changed; the local side wins.
    conflicts: usize,
    /// Number of image changes that do not arrive, although the path has no local change.
    not_taken: usize,
    /// Local changes that are lost.
    losses: Vec<LossItem>,
    /// Paths for which libostree refuses the merge.
    refusals: Vec<RefusalItem>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct PathItem {
    /// Absolute path on the host; bytes that are not UTF-8 are replaced.
    #[schemars(regex(pattern = ETC_PATH))]
    path: String,
    change: ChangeKind,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ConflictItem {
    /// Absolute path on the host; bytes that are not UTF-8 are replaced.
    #[schemars(regex(pattern = ETC_PATH))]
    path: String,
    /// Local change.
    local: ChangeKind,
    /// Change of the image.
    image: ChangeKind,
}

#[derive(Debug, Serialize, JsonSchema)]
struct LossItem {
    /// Absolute path on the host; bytes that are not UTF-8 are replaced.
    #[schemars(regex(pattern = ETC_PATH))]
    path: String,
    change: ChangeKind,
    lost: LostPart,
}

#[derive(Debug, Serialize, JsonSchema)]
struct RefusalItem {
    /// Absolute path on the host; bytes that are not UTF-8 are replaced.
    #[schemars(regex(pattern = ETC_PATH))]
    path: String,
    reason: RefusalReason,
    /// Reason and remedy.
    #[schemars(length(min = 1))]
    detail: String,
}

impl EtcDiffDocument {
    /// Build the document of `etc-diff` for a merge from the deployment `from` into `to`.
    #[must_use]
    pub fn of(from: DeploymentName, to: DeploymentName, findings: &MergeFindings) -> Self {
        let conflicts = findings.conflicts.iter().map(|conflict| ConflictItem {
            path: display_path(&conflict.path),
            local: conflict.local,
            image: conflict.image,
        });
        Self {
            schema: SCHEMA,
            from,
            to,
            kept: items(&findings.kept),
            from_image: items(&findings.from_image),
            conflicts: conflicts.collect(),
            losses: losses(&findings.losses),
            not_taken: items(&findings.not_taken),
            refusals: refusals(&findings.refusals),
        }
    }
}

impl EtcSummary {
    /// Build the member `etc` of a plan's document.
    #[must_use]
    pub fn of(etc: &EtcPlan) -> Self {
        let findings = &etc.findings;
        Self {
            with: etc.with,
            due: etc.is_due,
            kept: findings.kept.len(),
            from_image: findings.from_image.len(),
            conflicts: findings.conflicts.len(),
            not_taken: findings.not_taken.len(),
            losses: losses(&findings.losses),
            refusals: refusals(&findings.refusals),
        }
    }
}

fn items(items: &[MergeItem]) -> Vec<PathItem> {
    items.iter().map(|item| PathItem { path: display_path(&item.path), change: item.change }).collect()
}

fn losses(losses: &[LostChange]) -> Vec<LossItem> {
    let item =
        |loss: &LostChange| LossItem { path: display_path(&loss.path), change: loss.change, lost: loss.lost };
    losses.iter().map(item).collect()
}

fn refusals(refusals: &[MergeRefusal]) -> Vec<RefusalItem> {
    let item = |refusal: &MergeRefusal| RefusalItem {
        path: display_path(&refusal.path),
        reason: refusal.reason,
        detail: refusal.to_string(),
    };
    refusals.iter().map(item).collect()
}
