//! Document of `plan -o json` (`docs/schema/plan.json`).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::core::config::host_config::{KernelType, OsSpec};
use crate::core::config::policy::{CONTAINER_RUNTIME, DisruptionAction};
use crate::core::plan::diff::ChangedItem;
use crate::core::plan::drift::{Drift, DriftDifference};
use crate::core::plan::steps::disk_effect::DiskEffect;
use crate::core::plan::{FetchSize, Plan, TreePlan};
use crate::core::values::identifiers::{ConfigName, UNIT_NAME};
use crate::core::values::image::redact_credentials;
use crate::core::values::names::ManagedPath;
use crate::core::values::profile::Profile;
use crate::core::values::refusal::Refusal;
use crate::core::values::tree::{ChangeKind, DriftKind};
use crate::report::etc_diff::EtcSummary;

/// Value of the member `schema`.
const SCHEMA: u32 = 1;

/// Changes, disruption, obstacles and drift between the current and the desired config.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanDocument<'a> {
    /// Version of this document. Members may be added within a version; a member that changes its meaning
    /// makes a new one.
    #[schemars(extend("const" = SCHEMA))]
    schema: u32,
    /// Profile whose rules decide which changes can be applied.
    profile: Profile,
    /// `metadata.name` of the current config; null if none was applied.
    current: Option<&'a ConfigName>,
    /// `metadata.name` of the desired config.
    desired: &'a ConfigName,
    changes: Changes<'a>,
    /// Actions after the change, in order. `None` stands alone: no difference needs another one.
    #[schemars(length(min = 1))]
    actions: Vec<ActionItem<'a>>,
    /// True if the plan is not one of the running host: `actions`, `drain` and `rebootRequired` then tell what a running
    /// host would do, and `apply` does none of it.
    hypothetical: bool,
    /// True if applying the plan would change the disk or the record of the applied config; drift that it undoes is such
    /// a change.
    changes_host: bool,
    /// Files with local changes and the drift policy `merge`.
    merges: Vec<MergeItem<'a>>,
    /// Drift that applying the plan undoes.
    restores: Vec<DriftItem<'a>>,
    /// True if workloads leave the node before the change.
    drain: bool,
    /// True if the change needs a reboot: if the actions list one.
    reboot_required: bool,
    /// Changes that cannot be made in place. Such a plan is never applied, and the command exits with 1.
    irreconcilable: &'a [Refusal],
    /// Differences of the disk from the current config; empty if no tree was read.
    drift: Vec<DriftItem<'a>>,
    /// Three-way merge of `/etc` by libostree, before the config is written into it; null without a deployment
    /// to merge from. `flameholder etc-diff` lists the paths.
    etc: Option<EtcSummary>,
    /// Layers of the OS image that the host lacks; null unless `--fetch-size` asked for them.
    fetch: Option<FetchSize>,
    /// Parts of the desired config that this host does not support, each with the reason.
    #[schemars(inner(length(min = 1)))]
    unsupported: &'a [String],
    /// Files that activation puts in place at the next boot, each with the reason.
    #[schemars(inner(length(min = 1)))]
    deferred: &'a [String],
    /// Consequences of entries that are applied as they are, such as a path in `/run`, which does not outlive a
    /// boot.
    #[schemars(inner(length(min = 1)))]
    warnings: &'a [String],
    /// Conditions for applying the plan. A failed one is a warning.
    preflight: Vec<PreflightItem<'a>>,
}

/// Differences between the two configs, contents compared decoded. Drift is not part of them.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Changes<'a> {
    /// Differences in `spec.config.storage.files`, sorted by path.
    files: Vec<PathItem<'a>>,
    /// Differences in `spec.config.storage.directories`, sorted by path.
    directories: Vec<PathItem<'a>>,
    /// Differences in `spec.config.storage.links`, sorted by path.
    links: Vec<PathItem<'a>>,
    /// Differences in `spec.config.systemd.units`: contents, drop-ins, enablement, mask; sorted by name.
    units: Vec<UnitItem<'a>>,
    /// OS images as the configs spell them, or on a sysroot as the deployment's origin does, with scheme and
    /// transport; null if the image stays.
    os_image: Option<ImageChange>,
    /// All kernel arguments of each config, in order, with repetitions; null if they stay.
    kernel_arguments: Option<ListChange>,
    /// Kernel types; null if the type stays.
    kernel_type: Option<KernelTypeChange>,
    /// All extensions of each config, in order; null if they stay.
    extensions: Option<ListChange>,
    /// True if the authorized SSH keys differ.
    ssh_keys: bool,
    /// True if the password hash of the user `core` differs.
    password: bool,
    /// True if FIPS mode differs.
    fips: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ImageChange {
    /// Current image, without credentials; null if the config names none.
    #[schemars(length(min = 1))]
    from: Option<String>,
    /// Desired image, without credentials; null if the config names none.
    #[schemars(length(min = 1))]
    to: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ListChange {
    /// Current list.
    #[schemars(inner(length(min = 1)))]
    from: Vec<String>,
    /// Desired list.
    #[schemars(inner(length(min = 1)))]
    to: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct KernelTypeChange {
    /// Current kernel type.
    #[schemars(extend("enum" = KernelType::NAMES))]
    from: &'static str,
    /// Desired kernel type.
    #[schemars(extend("enum" = KernelType::NAMES))]
    to: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct PathItem<'a> {
    /// Absolute path on the host.
    path: &'a ManagedPath,
    change: ChangeKind,
    /// Effect on the path in the tree; null where that is not known: without a tree, and for a path that is not looked at
    /// there.
    on_disk: Option<DiskEffect>,
    /// Respects in which the item differs.
    #[schemars(length(min = 1), inner(length(min = 1)))]
    reasons: &'a [String],
}

#[derive(Debug, Serialize, JsonSchema)]
struct UnitItem<'a> {
    /// Unit name with its suffix.
    #[schemars(regex(pattern = UNIT_NAME))]
    name: &'a str,
    change: ChangeKind,
    /// Respects in which the unit differs.
    #[schemars(length(min = 1), inner(length(min = 1)))]
    reasons: &'a [String],
}

#[derive(Debug, Serialize, JsonSchema)]
struct ActionItem<'a> {
    /// Kind of the action. `Special` makes CRI-O read `registries.conf` again.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ActionItem::KINDS))]
    kind: &'static str,
    /// Unit that is reloaded or restarted; absent for the other kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = UNIT_NAME))]
    unit: Option<&'a str>,
    /// Differences that need the action, one sentence each; empty only for `None`.
    #[schemars(inner(length(min = 1)))]
    because: &'a [String],
}

#[derive(Debug, Serialize, JsonSchema)]
struct MergeItem<'a> {
    /// Absolute path on the host.
    path: &'a ManagedPath,
    /// Reason for which the local changes do not fit the desired config, which is not applied then; null where they
    /// fit, and are kept.
    #[schemars(length(min = 1))]
    conflict: Option<&'a str>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct DriftItem<'a> {
    /// Absolute path on the host.
    path: &'a ManagedPath,
    kind: DriftKind,
    /// Difference without contents; null where the kind says everything.
    difference: Option<&'a DriftDifference>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct PreflightItem<'a> {
    /// Name of the condition.
    #[schemars(length(min = 1))]
    check: &'a str,
    /// True if the condition holds.
    ok: bool,
    /// Observation, and the remedy if the condition does not hold.
    detail: &'a str,
}

impl<'a> MergeItem<'a> {
    fn of_plan(tree: &'a TreePlan) -> impl Iterator<Item = Self> {
        let merged = tree.merges.merged.iter().map(|path| Self { path, conflict: None });
        let conflicts = tree.merges.conflicts.iter();
        merged.chain(conflicts.map(|found| Self { path: &found.path, conflict: Some(&found.reason) }))
    }
}

impl<'a> PlanDocument<'a> {
    /// Build the document of a plan; `hypothetical` is true for one that no running host applies.
    #[must_use]
    pub fn of(plan: &'a Plan, hypothetical: bool) -> Self {
        let tree = plan.tree.iter();
        let drift = tree.clone().flat_map(|tree| &tree.drift);
        let restored = tree.clone().flat_map(TreePlan::restored);
        let preflight = tree.flat_map(|tree| &tree.preflight);
        let item = |drift: &'a Drift| DriftItem {
            path: &drift.path,
            kind: drift.kind,
            difference: drift.difference.as_ref(),
        };
        Self {
            schema: SCHEMA,
            profile: plan.profile,
            current: plan.current.as_ref(),
            desired: &plan.desired,
            changes: Changes::of(plan),
            actions: plan
                .disruption
                .actions
                .iter()
                .map(|required| ActionItem::of(&required.action, &required.because))
                .collect(),
            hypothetical,
            changes_host: plan.changes_host(),
            merges: plan.tree.iter().flat_map(MergeItem::of_plan).collect(),
            restores: restored.map(item).collect(),
            drain: plan.disruption.drain,
            reboot_required: plan.disruption.reboots(),
            irreconcilable: &plan.irreconcilable,
            drift: drift.map(item).collect(),
            etc: plan.etc.as_ref().map(EtcSummary::of),
            fetch: plan.fetch,
            unsupported: &plan.unsupported,
            deferred: &plan.deferred,
            warnings: &plan.warnings,
            preflight: preflight
                .map(|check| PreflightItem { check: check.check, ok: check.ok, detail: &check.detail })
                .collect(),
        }
    }
}

impl<'a> Changes<'a> {
    fn of(plan: &'a Plan) -> Self {
        let (diff, from, to) = (&plan.diff, &plan.current_os, &plan.desired_os);
        let image = |image: &Option<String>| image.as_deref().map(redact_credentials);
        let arguments = |os: &OsSpec| os.kernel_arguments.iter().map(ToString::to_string).collect();
        Self {
            files: paths(&diff.files, plan.tree.as_ref()),
            directories: paths(&diff.directories, plan.tree.as_ref()),
            links: paths(&diff.links, plan.tree.as_ref()),
            units: diff
                .units
                .iter()
                .map(|(name, changed)| UnitItem { name, change: changed.change, reasons: &changed.reasons })
                .collect(),
            os_image: diff.os_image.then(|| ImageChange { from: image(&from.image), to: image(&to.image) }),
            kernel_arguments: diff
                .kernel_arguments
                .then(|| ListChange { from: arguments(from), to: arguments(to) }),
            kernel_type: diff
                .kernel_type
                .then(|| KernelTypeChange { from: from.kernel_type.as_str(), to: to.kernel_type.as_str() }),
            extensions: diff
                .extensions
                .then(|| ListChange { from: from.extensions.clone(), to: to.extensions.clone() }),
            ssh_keys: diff.ssh_keys,
            password: diff.password,
            fips: diff.fips,
        }
    }
}

fn paths<'a>(items: &'a BTreeMap<ManagedPath, ChangedItem>, tree: Option<&TreePlan>) -> Vec<PathItem<'a>> {
    let item = |(path, changed): (&'a ManagedPath, &'a ChangedItem)| PathItem {
        path,
        change: changed.change,
        on_disk: tree.and_then(|tree| tree.effect_on(path)),
        reasons: &changed.reasons,
    };
    items.iter().map(item).collect()
}

impl<'a> ActionItem<'a> {
    /// Kinds of actions.
    const KINDS: [&'static str; 7] =
        ["None", "DaemonReload", "Reload", "Restart", "Special", "Drain", "Reboot"];

    fn of(action: &'a DisruptionAction, because: &'a [String]) -> Self {
        let (kind, unit) = match action {
            DisruptionAction::None => ("None", None),
            DisruptionAction::DaemonReload => ("DaemonReload", None),
            DisruptionAction::Reload(unit) => ("Reload", Some(unit.as_str())),
            DisruptionAction::Restart(unit) => ("Restart", Some(unit.as_str())),
            DisruptionAction::Special => ("Special", Some(CONTAINER_RUNTIME)),
            DisruptionAction::Drain => ("Drain", None),
            DisruptionAction::Reboot => ("Reboot", None),
        };
        Self { kind, unit, because }
    }
}
