//! Facts about a tree and two configurations into steps, drift and what is left out.

use std::collections::{BTreeMap, BTreeSet};

use super::diff::ConfigDiff;
use super::facts::TreeFacts;
use super::password;
use super::password::PasswordEdit;
use super::steps;
use super::steps::{PathObstruction, PriorChanges, StepInputs};
use super::unit_links;
use super::{Drift, TreePlan};
use crate::core::config::host_config::{CORE_USER, HostConfig};
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::SHADOW;
use crate::core::values::profile::Profile;
use crate::core::values::tree::{DriftKind, PathState};

/// What a tree plan is decided from, beside the facts.
#[derive(Debug, Clone, Copy)]
pub struct TreePlanRequest<'a> {
    /// The configuration that was applied last.
    pub current: Option<&'a HostConfig>,
    /// The configuration to apply.
    pub desired: &'a HostConfig,
    /// What differs between them.
    pub diff: &'a ConfigDiff,
    /// What earlier changes left to be remembered.
    pub remembered: &'a PriorChanges,
    /// Whose verdicts apply.
    pub profile: Profile,
    /// Days since 1970.
    pub today: u64,
}

/// Decides what happens in the tree. Returns the plan and what the tree cannot be given.
#[must_use]
pub fn decide(facts: &TreeFacts, request: TreePlanRequest<'_>) -> (TreePlan, Vec<String>) {
    let TreePlanRequest { current, desired, diff, remembered, profile, today } = request;
    let links = unit_links::change(facts, current, desired, diff);
    let mut left_out = facts.desired.left_out.clone();
    left_out.extend(links.left_out);
    let mut steps = steps::compute(StepInputs {
        current: &facts.managed,
        desired: &facts.desired,
        observed: &facts.observed,
        below: &facts.below,
        aliases: &facts.aliases,
        vendor: &facts.vendor,
        links: &links.change,
        remembered,
        profile,
    });
    steps.obstructions.extend(links.obstructions);
    if profile == Profile::Native {
        steps.obstructions.extend(kept_by_wish(facts, current, desired));
    }
    match password::edit(facts, current, desired, profile, today) {
        PasswordEdit::Unchanged => {}
        PasswordEdit::Write(step) => steps.steps.push(step),
        PasswordEdit::NoUser => left_out.push(format!(
            "spec.config.passwd.users: {SHADOW} has no user `{CORE_USER}`, so its password is not set"
        )),
    }
    let drift = current.map(|current| drift(facts, current, &remembered.labels, profile)).unwrap_or_default();
    let outside = facts.outside.clone();
    (TreePlan { steps, outside, drift, preflight: Vec::new() }, left_out)
}

/// Files of others that the configuration asks not to overwrite.
fn kept_by_wish(
    facts: &TreeFacts,
    current: Option<&HostConfig>,
    desired: &HostConfig,
) -> Vec<PathObstruction> {
    let is_ours = |path: &ManagedPath| current.is_some_and(|current| current.files.contains_key(path));
    let wished = desired.files.iter().filter(|(path, file)| file.overwrite == Some(false) && !is_ours(path));
    let differing = wished.filter(|(path, _)| {
        let (node, entry) = (facts.observed.get(*path), facts.desired.entries.get(*path));
        let (Some(node), Some(entry)) = (node, entry) else { return false };
        node.exists() && entry.deviation(node, &facts.observed).is_some()
    });
    differing
        .map(|(path, file)| PathObstruction {
            path: path.clone(),
            reason: format!(
                "spec.config.storage.files[{}].overwrite is false, and another {path} is there already",
                file.index
            ),
        })
        .collect()
}

/// Every managed path that is not as `current` says, or not labelled as it was, in order.
#[must_use]
pub fn drift(
    facts: &TreeFacts,
    current: &HostConfig,
    labels: &BTreeMap<ManagedPath, String>,
    profile: Profile,
) -> Vec<Drift> {
    let mut drift: Vec<Drift> = facts
        .current
        .entries
        .iter()
        .filter_map(|(path, entry)| {
            let node = facts.observed.get(path).unwrap_or(&PathState::Absent);
            if profile.leaves(path) && matches!(node, PathState::File { .. }) {
                return None;
            }
            let kind = entry.deviation(node, &facts.observed)?;
            Some(Drift { path: path.clone(), kind })
        })
        .collect();
    let links = unit_links::deviating(facts, current).into_iter();
    drift.extend(links.map(|path| Drift { path, kind: DriftKind::Enablement }));
    if password::deviates(facts, current) {
        let path = ManagedPath::constant(SHADOW);
        drift.push(Drift { path, kind: DriftKind::Password });
    }
    drift.extend(mislabelled(facts, labels, &drift));
    drift.sort();
    drift
}

/// Paths whose label is the only thing wrong with them.
fn mislabelled(facts: &TreeFacts, labels: &BTreeMap<ManagedPath, String>, found: &[Drift]) -> Vec<Drift> {
    let found: BTreeSet<&ManagedPath> = found.iter().map(|drift| &drift.path).collect();
    labels
        .iter()
        .filter(|(path, label)| {
            let node = facts.observed.get(*path);
            node.is_some_and(|node| node.is_mislabelled(label)) && !found.contains(path)
        })
        .map(|(path, _)| Drift { path: path.clone(), kind: DriftKind::Label })
        .collect()
}
