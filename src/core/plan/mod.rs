//! What would change, why, and what it would disturb: decided from two configurations alone, and
//! completed by what a tree looks like where there is one.

pub mod diff;
pub mod disruption;
pub mod drift_repair;
pub mod facts;
pub mod first_boot;
pub mod first_presets;
pub mod password;
pub mod reconcile;
pub mod service_actions;
pub mod steps;
pub mod tree_plan;
pub mod unit_links;
pub mod unit_texts;

use serde::Serialize;

use crate::core::config::host_config::{HostConfig, OsSpec};
use crate::core::config::managed_files::ManagedFiles;
use crate::core::config::policy::DisruptionPolicy;
use crate::core::etc_merge::MergeFindings;
use crate::core::values::names::ManagedPath;
use crate::core::values::profile::Profile;
use crate::core::values::refusal::Refusal;
use crate::core::values::tree::DriftKind;
use diff::ConfigDiff;
use disruption::Disruption;
use steps::PlannedSteps;

/// The plan from one configuration to another. Making one has no side effects.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Whose verdicts apply.
    pub profile: Profile,
    /// Name of the current configuration; `None` where nothing was applied yet.
    pub current: Option<String>,
    /// Name of the desired configuration.
    pub desired: String,
    /// The operating system's side of the current configuration.
    pub current_os: OsSpec,
    /// The operating system's side of the desired configuration.
    pub desired_os: OsSpec,
    /// What differs between the two.
    pub diff: ConfigDiff,
    /// What stands in the way; a plan with any of these cannot be applied.
    pub irreconcilable: Vec<Refusal>,
    /// What the workload must bear, by the default policy unless somebody judged by another.
    pub disruption: Disruption,
    /// What this target cannot be given, with reasons.
    pub left_out: Vec<String>,
    /// What the tree adds, where the plan was made for one.
    pub tree: Option<TreePlan>,
    /// What becomes of `/etc`, where the plan was made for a deployment.
    pub etc: Option<EtcPlan>,
}

/// What libostree's merge does to the `/etc` of the next deployment, before the configuration is written into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcPlan {
    /// With which image's `/usr/etc`.
    pub with: MergeImage,
    /// Whether the plan leads to this merge.
    pub is_due: bool,
    /// What becomes of changes.
    pub findings: MergeFindings,
}

/// The image that an `/etc` is merged with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum MergeImage {
    /// The one that the next deployment has.
    Next,
    /// The present one, since the next one is not here yet: that shows what was changed locally.
    Present,
}

/// The part of a plan that depends on a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TreePlan {
    /// The acts on paths.
    pub steps: PlannedSteps,
    /// What the desired configuration wants outside `/etc`.
    pub outside: ManagedFiles,
    /// Managed paths that are not as the current configuration says.
    pub drift: Vec<Drift>,
    /// Conditions that were looked at.
    pub preflight: Vec<PreflightCheck>,
}

/// A managed path that deviates.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Drift {
    /// The path, or a unit's path for its enablement.
    pub path: ManagedPath,
    /// In which respect.
    pub kind: DriftKind,
}

/// A condition for applying a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreflightCheck {
    /// What was looked at.
    pub check: &'static str,
    /// Whether it holds.
    pub ok: bool,
    /// What was found, and what to do where it does not hold.
    pub detail: String,
}

impl Plan {
    /// Compares two configurations and decides.
    #[must_use]
    pub fn between(current: Option<&HostConfig>, desired: &HostConfig, profile: Profile) -> Self {
        let nothing = HostConfig::default();
        let before = current.unwrap_or(&nothing);
        let diff = ConfigDiff::between(before, desired);
        Self {
            profile,
            current: current.map(|config| config.name.clone()),
            desired: desired.name.clone(),
            current_os: before.os.clone(),
            desired_os: desired.os.clone(),
            irreconcilable: reconcile::irreconcilable(before, desired, &diff, profile),
            disruption: Disruption::of(&diff, before, desired, &DisruptionPolicy::default()),
            diff,
            left_out: Vec::new(),
            tree: None,
            etc: None,
        }
    }

    /// Decides by this policy what the workload must bear. The configurations are those that the plan was made for.
    pub fn judge_by(
        &mut self,
        policy: &DisruptionPolicy,
        current: Option<&HostConfig>,
        desired: &HostConfig,
    ) {
        let nothing = HostConfig::default();
        self.disruption = Disruption::of(&self.diff, current.unwrap_or(&nothing), desired, policy);
    }

    /// Whether the configurations differ. Drift is not a difference between configurations.
    #[must_use]
    pub fn has_differences(&self) -> bool {
        self.current.is_none() || !self.diff.is_empty()
    }

    /// Whether something stands in the way of its acts on paths, whatever else keeps it from being applied.
    #[must_use]
    pub fn is_obstructed(&self) -> bool {
        self.tree.as_ref().is_some_and(|tree| !tree.steps.obstructions.is_empty())
    }

    /// Everything that keeps the plan from being applied, one sentence each. A failed preflight
    /// check is a warning only: an image that is there already needs no program to pull it.
    #[must_use]
    pub fn hindrances(&self) -> Vec<String> {
        let tree = self.tree.iter();
        let obstructions = tree.flat_map(|tree| &tree.steps.obstructions);
        let merges = self.etc.iter().filter(|etc| etc.is_due && etc.with == MergeImage::Next);
        let refused = merges.flat_map(|etc| &etc.findings.refusals);
        self.irreconcilable
            .iter()
            .map(ToString::to_string)
            .chain(obstructions.map(|obstruction| obstruction.reason.clone()))
            .chain(refused.map(ToString::to_string))
            .collect()
    }
}
