//! Drift: managed paths that differ from the current config, and the plan of their repair.

mod difference;
pub mod local_merge;
pub mod repair_plan;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub use difference::DriftDifference;

use super::facts::TreeFacts;
use super::{password, unit_links};
use crate::core::config::host_config::HostConfig;
use crate::core::config::settings::DriftPolicy;
use crate::core::values::foreign_text::harmless_line;
use crate::core::values::kernel_arguments::KernelArguments;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::{RECORD, SHADOW};
use crate::core::values::profile::Profile;
use crate::core::values::tree::{DriftKind, PathState};

/// Drift of one managed path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Drift {
    /// Path of the file, or of the unit whose enablement differs.
    pub path: ManagedPath,
    /// Property that differs.
    pub kind: DriftKind,
    /// Difference without contents; `None` where the kind says everything.
    pub difference: Option<DriftDifference>,
}

impl Drift {
    /// Drift whose kind says everything.
    #[must_use]
    pub fn new(path: ManagedPath, kind: DriftKind) -> Self {
        Self { path, kind, difference: None }
    }

    /// Drift of a boot entry that lacks kernel arguments at their place.
    #[must_use]
    pub fn of_boot_entry(missing: &KernelArguments) -> Self {
        Self {
            path: ManagedPath::constant(RECORD),
            kind: DriftKind::KernelArguments,
            difference: (!missing.is_empty())
                .then(|| DriftDifference::new(missing.to_string(), "not set, or set elsewhere")),
        }
    }

    /// Drift of a kernel whose FIPS `mode` is not that of the config.
    #[must_use]
    pub fn of_fips_mode(mode: bool) -> Self {
        let word = |mode: bool| if mode { "on" } else { "off" };
        Self {
            path: ManagedPath::constant(RECORD),
            kind: DriftKind::FipsMode,
            difference: Some(DriftDifference::new(word(!mode), word(mode))),
        }
    }

    /// Describe the drift without its path, in one line.
    #[must_use]
    pub fn description(&self) -> String {
        match &self.difference {
            Some(DriftDifference { expected, found }) => {
                let text = format!("{} (expected {expected}, found {found})", self.kind);
                harmless_line(&text).into_owned()
            }
            None => self.kind.to_string(),
        }
    }
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.path, self.description())
    }
}

/// One drifted path with its drift policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriftFinding {
    pub drift: Drift,
    /// Policy from the settings.
    pub policy: DriftPolicy,
    /// Reason for which a repair was not possible.
    pub obstacle: Option<String>,
    /// Names of the documents that list the path, the one that wins last; empty where the config names none.
    pub documents: Vec<String>,
    /// True if a user other than root can change the path. Such drift is reported, and blocks nothing.
    pub is_unprivileged: bool,
}

impl DriftFinding {
    /// Return true unless the path's policy accepts the drift. `merge` accepts other contents only.
    #[must_use]
    pub fn counts(&self) -> bool {
        match self.policy {
            DriftPolicy::Report | DriftPolicy::Repair => true,
            DriftPolicy::Merge => self.drift.kind != DriftKind::Content,
            DriftPolicy::Ignore => false,
        }
    }
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
        .flat_map(|(path, entry)| {
            let node = facts.observed.get(path).unwrap_or(&PathState::Absent);
            let is_local = profile.keeps_local_content(path) && matches!(node, PathState::File { .. });
            let kind = if is_local { None } else { entry.drift(node, &facts.observed) };
            // A policy that accepts other contents accepts nothing else.
            let beside = kind.filter(|kind| *kind == DriftKind::Content);
            let beside = beside.and_then(|_| entry.attribute_drift(node));
            kind.into_iter().chain(beside).map(move |kind| {
                let difference = DriftDifference::of_entry(kind, entry, node);
                Drift { path: path.clone(), kind, difference }
            })
        })
        .collect();
    drift.extend(unit_links::drifted_links(facts, current));
    if password::has_drifted(facts, current) {
        drift.push(Drift::new(ManagedPath::constant(SHADOW), DriftKind::Password));
    }
    drift.extend(mislabelled(facts, labels, &drift));
    drift.sort();
    drift
}

/// Find paths that differ from nothing but their SELinux label, and perhaps their content.
fn mislabelled(facts: &TreeFacts, labels: &BTreeMap<ManagedPath, String>, found: &[Drift]) -> Vec<Drift> {
    let found = found.iter().filter(|drift| drift.kind != DriftKind::Content);
    let found: BTreeSet<&ManagedPath> = found.map(|drift| &drift.path).collect();
    let drift = |(path, label): (&ManagedPath, &String)| {
        let node = facts.observed.get(path)?;
        let difference = || Some(DriftDifference::of_label(label, node));
        (node.is_mislabelled(label) && !found.contains(path)).then(|| Drift {
            path: path.clone(),
            kind: DriftKind::Label,
            difference: difference(),
        })
    };
    labels.iter().filter_map(drift).collect()
}
