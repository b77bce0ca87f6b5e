//! Drift: managed paths that differ from the current config, and the plan of their repair.

pub mod repair_plan;

use std::collections::{BTreeMap, BTreeSet};

use super::facts::TreeFacts;
use super::{password, unit_links};
use crate::core::config::host_config::HostConfig;
use crate::core::config::settings::DriftPolicy;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::SHADOW;
use crate::core::values::profile::Profile;
use crate::core::values::tree::{DriftKind, PathState};

/// Drift of one managed path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Drift {
    /// Path of the file, or of the unit whose enablement differs.
    pub path: ManagedPath,
    /// Property that differs.
    pub kind: DriftKind,
}

/// One drifted path with its drift policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriftFinding {
    pub drift: Drift,
    /// Policy from the settings: report, repair or ignore.
    pub policy: DriftPolicy,
    /// Reason for which a repair was not possible.
    pub obstacle: Option<String>,
    /// True if a user other than root can change the path. Such drift is reported, and blocks nothing.
    pub is_unprivileged: bool,
}

/// Find drift: managed paths that differ from `current`, or from their recorded SELinux label; in order of
/// path.
#[must_use]
pub fn find_drift(
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
            if profile.keeps_local_content(path) && matches!(node, PathState::File { .. }) {
                return None;
            }
            let kind = entry.drift(node, &facts.observed)?;
            Some(Drift { path: path.clone(), kind })
        })
        .collect();
    let links = unit_links::drifted_links(facts, current).into_iter();
    drift.extend(links.map(|path| Drift { path, kind: DriftKind::Enablement }));
    if password::has_drifted(facts, current) {
        let path = ManagedPath::constant(SHADOW);
        drift.push(Drift { path, kind: DriftKind::Password });
    }
    drift.extend(mislabelled(facts, labels, &drift));
    drift.sort();
    drift
}

/// Find paths whose only difference is their SELinux label.
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
