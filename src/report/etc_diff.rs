//! Document of `etc-diff -o json` (`docs/schema/etc-diff.json`), and its summary in the document of `plan`.

use serde::Serialize;

use crate::core::etc_merge::{
    LostChange, LostPart, MergeFindings, MergeItem, MergeRefusal, RefusalReason, display_path,
};
use crate::core::plan::{EtcPlan, MergeImage};
use crate::core::values::change::ChangeKind;

/// Value of the member `schema`.
const SCHEMA: u32 = 1;

/// Outcome of the three-way merge of `/etc`, by path.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcDiffDocument {
    schema: u32,
    from: DeploymentName,
    to: DeploymentName,
    kept: Vec<PathItem>,
    from_image: Vec<PathItem>,
    conflicts: Vec<ConflictItem>,
    losses: Vec<LossItem>,
    not_taken: Vec<PathItem>,
    refusals: Vec<RefusalItem>,
}

/// Identity of a deployment.
#[derive(Debug, Serialize)]
pub struct DeploymentName {
    pub stateroot: String,
    /// OSTree commit checksum, 64 hex digits.
    pub commit: String,
    /// Number that tells deployments of one commit apart.
    pub serial: u32,
}

/// The merge as part of a plan: paths of losses and refusals, counts of all other outcomes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcSummary {
    with: MergeImage,
    due: bool,
    kept: usize,
    from_image: usize,
    conflicts: usize,
    not_taken: usize,
    losses: Vec<LossItem>,
    refusals: Vec<RefusalItem>,
}

#[derive(Debug, Serialize)]
struct PathItem {
    path: String,
    change: ChangeKind,
}

#[derive(Debug, Serialize)]
struct ConflictItem {
    path: String,
    local: ChangeKind,
    image: ChangeKind,
}

#[derive(Debug, Serialize)]
struct LossItem {
    path: String,
    change: ChangeKind,
    lost: LostPart,
}

#[derive(Debug, Serialize)]
struct RefusalItem {
    path: String,
    reason: RefusalReason,
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
