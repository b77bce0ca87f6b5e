//! Document of `plan -o json` (`docs/schema/plan.json`).

use std::collections::BTreeMap;

use serde::Serialize;

use crate::core::config::host_config::OsSpec;
use crate::core::config::policy::{CONTAINER_RUNTIME, DisruptionAction};
use crate::core::plan::Plan;
use crate::core::plan::diff::ChangedItem;
use crate::core::values::change::ChangeKind;
use crate::core::values::names::ManagedPath;
use crate::core::values::profile::Profile;
use crate::core::values::refusal::Refusal;
use crate::core::values::tree::DriftKind;
use crate::report::etc_diff::EtcSummary;

/// Value of the member `schema`.
const SCHEMA: u32 = 1;

/// Changes, disruption, obstacles and drift between the current and the desired config.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanDocument<'a> {
    schema: u32,
    profile: Profile,
    current: Option<&'a str>,
    desired: &'a str,
    changes: Changes<'a>,
    actions: Vec<ActionItem<'a>>,
    drain: bool,
    reboot_required: bool,
    irreconcilable: &'a [Refusal],
    drift: Vec<DriftItem<'a>>,
    /// Three-way merge of `/etc`; `None` without a deployment to merge from.
    etc: Option<EtcSummary>,
    unsupported: &'a [String],
    deferred: &'a [String],
    preflight: Vec<PreflightItem<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Changes<'a> {
    files: Vec<PathItem<'a>>,
    directories: Vec<PathItem<'a>>,
    links: Vec<PathItem<'a>>,
    units: Vec<UnitItem<'a>>,
    os_image: Option<FromTo<Option<&'a str>>>,
    kernel_arguments: Option<FromTo<Vec<String>>>,
    kernel_type: Option<FromTo<&'a str>>,
    extensions: Option<FromTo<&'a [String]>>,
    ssh_keys: bool,
    password: bool,
    fips: bool,
}

#[derive(Debug, Serialize)]
struct FromTo<T> {
    from: T,
    to: T,
}

#[derive(Debug, Serialize)]
struct PathItem<'a> {
    path: &'a ManagedPath,
    change: ChangeKind,
    reasons: &'a [String],
}

#[derive(Debug, Serialize)]
struct UnitItem<'a> {
    name: &'a str,
    change: ChangeKind,
    reasons: &'a [String],
}

#[derive(Debug, Serialize)]
struct ActionItem<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<&'a str>,
    because: &'a [String],
}

#[derive(Debug, Serialize)]
struct DriftItem<'a> {
    path: &'a ManagedPath,
    kind: DriftKind,
}

#[derive(Debug, Serialize)]
struct PreflightItem<'a> {
    check: &'a str,
    ok: bool,
    detail: &'a str,
}

impl<'a> PlanDocument<'a> {
    /// Build the document of a plan.
    #[must_use]
    pub fn of(plan: &'a Plan) -> Self {
        let tree = plan.tree.iter();
        let drift = tree.clone().flat_map(|tree| &tree.drift);
        let preflight = tree.flat_map(|tree| &tree.preflight);
        Self {
            schema: SCHEMA,
            profile: plan.profile,
            current: plan.current.as_deref(),
            desired: &plan.desired,
            changes: Changes::of(plan),
            actions: plan
                .disruption
                .actions
                .iter()
                .map(|required| ActionItem::of(&required.action, &required.because))
                .collect(),
            drain: plan.disruption.drain,
            reboot_required: plan.disruption.reboots(),
            irreconcilable: &plan.irreconcilable,
            drift: drift.map(|drift| DriftItem { path: &drift.path, kind: drift.kind }).collect(),
            etc: plan.etc.as_ref().map(EtcSummary::of),
            unsupported: &plan.unsupported,
            deferred: &plan.deferred,
            preflight: preflight
                .map(|check| PreflightItem { check: check.check, ok: check.ok, detail: &check.detail })
                .collect(),
        }
    }
}

impl<'a> Changes<'a> {
    fn of(plan: &'a Plan) -> Self {
        let (diff, from, to) = (&plan.diff, &plan.current_os, &plan.desired_os);
        let arguments = |os: &OsSpec| os.kernel_arguments.iter().map(ToString::to_string).collect();
        Self {
            files: paths(&diff.files),
            directories: paths(&diff.directories),
            links: paths(&diff.links),
            units: diff
                .units
                .iter()
                .map(|(name, changed)| UnitItem { name, change: changed.change, reasons: &changed.reasons })
                .collect(),
            os_image: diff
                .os_image
                .then_some(FromTo { from: from.image.as_deref(), to: to.image.as_deref() }),
            kernel_arguments: diff
                .kernel_arguments
                .then(|| FromTo { from: arguments(from), to: arguments(to) }),
            kernel_type: diff
                .kernel_type
                .then(|| FromTo { from: from.kernel_type.as_str(), to: to.kernel_type.as_str() }),
            extensions: diff
                .extensions
                .then_some(FromTo { from: from.extensions.as_slice(), to: to.extensions.as_slice() }),
            ssh_keys: diff.ssh_keys,
            password: diff.password,
            fips: diff.fips,
        }
    }
}

fn paths(items: &BTreeMap<ManagedPath, ChangedItem>) -> Vec<PathItem<'_>> {
    items
        .iter()
        .map(|(path, changed)| PathItem { path, change: changed.change, reasons: &changed.reasons })
        .collect()
}

impl<'a> ActionItem<'a> {
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
