//! Plan of an update: differences, reasons, obstacles and disruption (none, reload, restart, drain, reboot).
//! A plan is decided from two configurations alone, and completed with the state of a tree where there is
//! one.

pub mod diff;
pub mod disruption;
pub mod drift;
pub mod facts;
pub mod first_boot;
pub mod first_presets;
pub mod irreconcilable_changes;
pub mod kubeconfig;
pub mod password;
pub mod reconcile;
pub mod remaining_work;
pub mod service_actions;
pub mod steps;
pub mod tree_plan;
pub mod unit_links;
pub mod unit_texts;

use std::collections::BTreeSet;

use diff::ConfigDiff;
use disruption::Disruption;
use drift::Drift;
use drift::local_merge::LocalMerges;
use reconcile::FIPS_FIELD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steps::{PathObstruction, PlanStep, PlannedSteps};

use crate::core::config::host_config::{HostConfig, OsSpec};
use crate::core::config::managed_files::ManagedFiles;
use crate::core::config::policy::DisruptionPolicy;
use crate::core::config::protected;
use crate::core::etc_merge::MergeFindings;
use crate::core::values::identifiers::ConfigName;
use crate::core::values::names::ManagedPath;
use crate::core::values::profile::Profile;
use crate::core::values::refusal::{Refusal, RefusalList};

/// Plan from one configuration to another. Planning has no side effects.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Profile whose rules apply: `mcd` or `native`.
    pub profile: Profile,
    /// Name of the current config; `None` where nothing was applied yet.
    pub current: Option<ConfigName>,
    /// Name of the desired config.
    pub desired: ConfigName,
    /// Image, kernel arguments, extensions and FIPS mode of the current config.
    pub current_os: OsSpec,
    /// Image, kernel arguments, extensions and FIPS mode of the desired config.
    pub desired_os: OsSpec,
    /// Differences between the two configs.
    pub diff: ConfigDiff,
    /// Changes that cannot be made on an installed host. A plan with any of these cannot be applied.
    pub irreconcilable: Vec<Refusal>,
    /// Disruption of the workload: by the default policy, or by that of [`Plan::apply_policy`].
    pub disruption: Disruption,
    /// Parts of the desired config that this host does not support, with reasons.
    pub unsupported: Vec<String>,
    /// Managed files that are stored with the generation and put in place by its activation.
    pub deferred: Vec<String>,
    /// Consequences of entries that are applied as they are, which an operator may not expect.
    pub warnings: Vec<String>,
    /// Steps and drift of a tree; `None` where the plan was made without one.
    pub tree: Option<TreePlan>,
    /// Predicted merge of `/etc`; `None` where the plan was made without a deployment.
    pub etc: Option<EtcPlan>,
    /// Part of the OS image to fetch; `None` unless its registry was asked.
    pub fetch: Option<FetchSize>,
}

/// Layers of an OS image that the host lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FetchSize {
    pub layers: usize,
    /// Compressed, as they are fetched.
    pub bytes: u64,
}

/// libostree's merge of `/etc` for the next deployment, before the managed files are written into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcPlan {
    /// Image that supplies the new `/usr/etc`.
    pub with: MergeImage,
    /// True if applying the plan leads to this merge; false if it needs no new deployment.
    pub is_due: bool,
    /// Local changes and image changes, kept and lost.
    pub findings: MergeFindings,
}

/// Image whose `/usr/etc` is merged with the local changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum MergeImage {
    /// Image of the next deployment.
    Next,
    /// Image of the current deployment, since the next image is not pulled yet: shows the local changes.
    Present,
}

/// Part of a plan that depends on a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TreePlan {
    /// Steps that change paths.
    pub steps: PlannedSteps,
    /// Desired managed files outside `/etc`.
    pub outside: ManagedFiles,
    /// Desired paths that are as desired already.
    pub unchanged: BTreeSet<ManagedPath>,
    /// Managed paths that differ from the current config, but for local changes that are merged.
    pub drift: Vec<Drift>,
    /// Local changes that are kept, and those that contradict the desired config.
    pub merges: LocalMerges,
    /// Checks made before anything is changed.
    pub preflight: Vec<PreflightCheck>,
}

/// Result of a preflight check, such as free space or a missing program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreflightCheck {
    /// Name of the check.
    pub check: &'static str,
    pub ok: bool,
    /// Finding, and the remedy if the check failed.
    pub detail: String,
}

const BLANK: &str = "an empty spec would remove everything that is managed; if that is meant, let it name an Ignition version: {config: {ignition: {version: 3.4.0}}}";

/// Return all reasons for which the desired config is probably not meant as it is written.
fn misspelt(desired: &HostConfig, diff: &ConfigDiff, profile: Profile) -> Vec<Refusal> {
    let is_blank = desired.is_blank && !diff.is_empty();
    let blank = is_blank.then(|| Refusal::new("spec", BLANK));
    let unknown = desired.unknown.iter().filter(|_| profile == Profile::Native);
    blank.into_iter().chain(unknown.cloned()).collect()
}

/// List the entries without the expected effect. A cluster may be newer than this agent: the profile `mcd` takes
/// its unknown keys, and the profile `native` refuses them.
fn warnings(desired: &HostConfig, profile: Profile) -> Vec<String> {
    let unknown = desired.unknown.iter().filter(|_| profile == Profile::Mcd);
    unknown.map(ToString::to_string).chain(protected::warnings(desired)).collect()
}

impl Plan {
    /// Plan the update from `current` to `desired`. Refuses a desired config that hardly says what its author meant.
    pub fn between(
        current: Option<&HostConfig>,
        desired: &HostConfig,
        profile: Profile,
    ) -> Result<Self, RefusalList> {
        let nothing = HostConfig::default();
        let before = current.unwrap_or(&nothing);
        let diff = ConfigDiff::between(before, desired);
        RefusalList::or(misspelt(desired, &diff, profile), ())?;
        Ok(Self {
            profile,
            current: current.map(|config| config.name.clone()),
            desired: desired.name.clone(),
            current_os: before.os.clone(),
            desired_os: desired.os.clone(),
            irreconcilable: reconcile::irreconcilable(before, desired, &diff, profile),
            disruption: Disruption::of(&diff, before, desired, &DisruptionPolicy::default()),
            diff,
            unsupported: desired.left_out.clone(),
            deferred: Vec::new(),
            warnings: warnings(desired, profile),
            tree: None,
            etc: None,
            fetch: None,
        })
    }

    /// Compare FIPS mode with that of the running kernel instead of that of the current config.
    pub fn judge_fips(&mut self, mode: bool, desired: &HostConfig) {
        self.irreconcilable.retain(|refusal| refusal.field != FIPS_FIELD);
        let refused = reconcile::refuse_fips(mode, desired.os.fips, self.profile);
        (self.current_os.fips, self.diff.fips) = (mode, refused.is_some());
        self.irreconcilable.extend(refused);
    }

    /// Decide the disruption again, by this policy, and let through what the policy overrides. `current` and `desired` are the configs that the plan was
    /// made for.
    pub fn apply_policy(
        &mut self,
        policy: &DisruptionPolicy,
        current: Option<&HostConfig>,
        desired: &HostConfig,
    ) {
        let nothing = HostConfig::default();
        self.disruption = Disruption::of(&self.diff, current.unwrap_or(&nothing), desired, policy);
        let overridden = self.irreconcilable.extract_if(.., |refusal| policy.is_overridden(&refusal.field));
        self.warnings.extend(overridden.map(|refusal| {
            format!("{}: changed, and not applied to this host; only a new installation does", refusal.field)
        }));
    }

    /// Return true if the configs differ. Drift is not a difference between configs.
    #[must_use]
    pub fn has_differences(&self) -> bool {
        self.current.is_none() || !self.diff.is_empty()
    }

    /// Give the files whose local changes contradict the desired config their desired contents, where `is_overruled`, and
    /// return their paths.
    pub fn overrule_conflicts(&mut self, is_overruled: impl Fn(&ManagedPath) -> bool) -> Vec<ManagedPath> {
        let conflicts = self.tree.iter_mut().map(|tree| &mut tree.merges.conflicts);
        let overruled = conflicts.flat_map(|conflicts| {
            conflicts.extract_if(.., |conflict| is_overruled(&conflict.path)).collect::<Vec<_>>()
        });
        overruled.map(|conflict| conflict.path).collect()
    }

    /// Leave out the obstructed paths that users other than root can change, by `is_changed_by_users`, and list them as
    /// deferred: such a user must not be able to refuse an update.
    pub fn leave_out_obstructed(&mut self, is_changed_by_users: impl Fn(&ManagedPath) -> bool) {
        let Some(tree) = &mut self.tree else { return };
        let (left_out, kept) = std::mem::take(&mut tree.steps.obstructions)
            .into_iter()
            .partition::<Vec<_>, _>(|obstruction| is_changed_by_users(&obstruction.path));
        tree.steps.obstructions = kept;
        for PathObstruction { path, reason } in left_out {
            let is_elsewhere = |step: &PlanStep| !step.path().is_within(path.as_str());
            tree.steps.preserve.retain(is_elsewhere);
            tree.steps.steps.retain(is_elsewhere);
            self.deferred.push(format!("{path}: left out, since {reason}"));
        }
    }

    /// Return all reasons for which the plan cannot be applied, one sentence each. A failed preflight check
    /// is a warning only: an image that was pulled already, for one, needs no program to pull it.
    #[must_use]
    pub fn obstacles(&self) -> Vec<String> {
        let tree = self.tree.iter();
        let obstructions = tree.flat_map(|tree| tree.steps.obstructions.iter().chain(&tree.merges.conflicts));
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
