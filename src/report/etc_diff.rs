//! The document of `etc-diff -o json` (`docs/schema/etc-diff.json`), and its summary in a plan's.

use serde::Serialize;

use crate::core::etc_merge::{
    LostChange, LostPart, MergeFindings, MergeItem, MergeRefusal, RefusalReason, shown,
};
use crate::core::plan::{EtcPlan, MergeImage};
use crate::core::values::change::ChangeKind;

/// Version of this document.
const SCHEMA: u32 = 1;

/// The whole document.
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
    held_back: Vec<PathItem>,
    refusals: Vec<RefusalItem>,
}

/// What names a deployment.
#[derive(Debug, Serialize)]
pub struct DeploymentName {
    /// Its stateroot.
    pub stateroot: String,
    /// The checksum of its commit.
    pub commit: String,
    /// Tells deployments of one commit apart.
    pub serial: u32,
}

/// What a plan says about the merge: paths only where something gets lost or is in the way.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcSummary {
    with: MergeImage,
    due: bool,
    kept: usize,
    from_image: usize,
    conflicts: usize,
    held_back: usize,
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
    /// The document of `etc-diff`.
    #[must_use]
    pub fn of(from: DeploymentName, to: DeploymentName, findings: &MergeFindings) -> Self {
        let conflicts = findings.conflicts.iter().map(|conflict| ConflictItem {
            path: shown(&conflict.path),
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
            held_back: items(&findings.held_back),
            refusals: refusals(&findings.refusals),
        }
    }
}

impl EtcSummary {
    /// The part of a plan's document.
    #[must_use]
    pub fn of(etc: &EtcPlan) -> Self {
        let findings = &etc.findings;
        Self {
            with: etc.with,
            due: etc.is_due,
            kept: findings.kept.len(),
            from_image: findings.from_image.len(),
            conflicts: findings.conflicts.len(),
            held_back: findings.held_back.len(),
            losses: losses(&findings.losses),
            refusals: refusals(&findings.refusals),
        }
    }
}

fn items(items: &[MergeItem]) -> Vec<PathItem> {
    items.iter().map(|item| PathItem { path: shown(&item.path), change: item.change }).collect()
}

fn losses(losses: &[LostChange]) -> Vec<LossItem> {
    let item = |loss: &LostChange| LossItem { path: shown(&loss.path), change: loss.change, lost: loss.lost };
    losses.iter().map(item).collect()
}

fn refusals(refusals: &[MergeRefusal]) -> Vec<RefusalItem> {
    let item = |refusal: &MergeRefusal| RefusalItem {
        path: shown(&refusal.path),
        reason: refusal.reason,
        detail: refusal.to_string(),
    };
    refusals.iter().map(item).collect()
}
