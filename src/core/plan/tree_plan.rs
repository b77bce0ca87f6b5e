//! Plan for a tree: steps, drift and unsupported parts, decided from its facts and two configurations.

use std::collections::BTreeSet;

use super::diff::ConfigDiff;
use super::drift::find_drift;
use super::facts::TreeFacts;
use super::password::PasswordEdit;
use super::steps::{PathObstruction, PriorChanges, StepInputs};
use super::{TreePlan, kubeconfig, password, steps, unit_links};
use crate::core::config::host_config::{CORE_USER, FileSpec, HostConfig};
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::SHADOW;
use crate::core::values::profile::Profile;
use crate::core::values::tree::{FileEntry, PathState};

/// Input of a tree plan, besides the tree's facts.
#[derive(Debug, Clone, Copy)]
pub struct TreePlanRequest<'a> {
    /// Current config; `None` where nothing was applied.
    pub current: Option<&'a HostConfig>,
    /// Desired config.
    pub desired: &'a HostConfig,
    /// Differences between the two.
    pub diff: &'a ConfigDiff,
    /// Pre-images, created directories and labels of earlier changes.
    pub prior: &'a PriorChanges,
    /// Profile whose rules apply.
    pub profile: Profile,
    /// Today's date in days since 1970, for `shadow(5)`.
    pub today: u64,
}

/// Decide the steps for a tree. Return the plan, and the parts of the config that the tree does not support.
#[must_use]
pub fn plan_tree(facts: &TreeFacts, request: TreePlanRequest<'_>) -> (TreePlan, Vec<String>) {
    let TreePlanRequest { current, desired, diff, prior, profile, today } = request;
    let links = unit_links::link_changes(facts, current, desired, diff);
    let mut unsupported = facts.desired.unsupported.clone();
    unsupported.extend(links.unsupported);
    let mut steps = steps::compute(StepInputs {
        current: &facts.managed,
        desired: &facts.desired,
        observed: &facts.observed,
        below: &facts.below,
        aliases: &facts.aliases,
        vendor: &facts.vendor,
        links: &links.change,
        prior,
        profile,
    });
    steps.obstructions.extend(links.obstructions);
    if profile == Profile::Native {
        steps.obstructions.extend(kept_local_files(facts, current, desired));
    }
    match password::edit(facts, current, desired, profile, today) {
        PasswordEdit::Unchanged => {}
        PasswordEdit::Set(step) => steps.steps.push(step),
        PasswordEdit::NoUser => unsupported.push(format!(
            "spec.config.passwd.users: {SHADOW} has no user `{CORE_USER}`, so its password is not set"
        )),
    }
    if !diff.is_empty() {
        steps.steps.extend(kubeconfig::make_private(facts, desired, profile));
    }
    let mut drift =
        current.map(|current| find_drift(facts, current, &prior.labels, profile)).unwrap_or_default();
    drift.retain(|drift| !facts.merges.keeps(drift));
    let outside = facts.outside.clone();
    let unchanged = unchanged(facts);
    let merges = facts.merges.clone();
    (TreePlan { steps, outside, unchanged, drift, merges, preflight: Vec::new() }, unsupported)
}

/// List the desired paths of this tree that are as desired already.
fn unchanged(facts: &TreeFacts) -> BTreeSet<ManagedPath> {
    let is_unchanged = |(path, entry): &(&ManagedPath, &FileEntry)| {
        let node = facts.observed.get(*path).unwrap_or(&PathState::Absent);
        entry.drift(node, &facts.observed).is_none()
    };
    facts.desired.entries.iter().filter(is_unchanged).map(|(path, _)| path.clone()).collect()
}

/// Find existing files that are not managed and that the config does not say to replace: with `overwrite: false`, or with no
/// contents at all. Ignition leaves the contents of the latter. A MachineConfig says `overwrite: true` of an empty file.
fn kept_local_files(
    facts: &TreeFacts,
    current: Option<&HostConfig>,
    desired: &HostConfig,
) -> Vec<PathObstruction> {
    let is_ours = |path: &ManagedPath| current.is_some_and(|current| current.files.contains_key(path));
    let foreign = desired.files.iter().filter(|(path, _)| !is_ours(path));
    let reason = |path: &ManagedPath, file: &FileSpec| {
        let (node, entry) = (facts.observed.get(path)?, facts.desired.entries.get(path)?);
        let field = format!("spec.config.storage.files[{}]", file.index);
        if !node.exists() || entry.drift(node, &facts.observed).is_none() {
            return None;
        }
        let is_filled = matches!(node, PathState::File { size, .. } if *size > 0);
        if file.overwrite == Some(false) {
            return Some(format!(
                "{field}.overwrite is false, but {path} exists and differs; remove it, or allow it to be overwritten"
            ));
        }
        let says_nothing = !file.has_contents && file.append.is_empty() && file.overwrite.is_none();
        (says_nothing && is_filled).then(|| {
            format!(
                "{field} has no contents, but {path} exists and would lose its own; give the contents that it shall have (`data:,` for none), or leave the path out"
            )
        })
    };
    foreign
        .filter_map(|(path, file)| Some(PathObstruction { path: path.clone(), reason: reason(path, file)? }))
        .collect()
}
