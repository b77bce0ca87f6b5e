//! Update of a plain tree: files, units and keys, without an operating system.

use std::collections::BTreeMap;

use crate::core::config::host_config::{HostConfig, KernelType};
use crate::core::history::HistoryEvent;
use crate::core::plan::Plan;
use crate::core::values::identifiers::GenerationId;
use crate::core::values::profile::Profile;
use crate::host::facts::tree_facts::{LocalMerging, TreeScope};
use crate::host::systemd::service_port::NoServices;
use crate::host::{LockedRoot, Root};
use crate::transaction::TransactionError;
use crate::transaction::engine::apply;
use crate::transaction::history;
use crate::transaction::plan::error::PlanError;
use crate::transaction::plan::tree_plan::{TreeChange, plan_tree_update};
use crate::transaction::state::current::{CurrentState, DecodedConfig};
use crate::transaction::state::decided_change::DecidedChange;
use crate::transaction::state::interrupted::{ensure_not_interrupted, recover_first};
use crate::transaction::state::{objects, settings};

/// Result of an update.
#[derive(Debug)]
pub struct TreeUpdate {
    pub plan: Plan,
    /// Generation after the update.
    pub generation: GenerationId,
    /// False if nothing differed.
    pub changed: bool,
}

/// Plan `desired` for the tree at `root`. `before` replaces the recorded current config.
pub fn plan(
    root: &Root,
    before: Option<&HostConfig>,
    desired: &HostConfig,
    profile: Profile,
) -> Result<Plan, TransactionError> {
    ensure_not_interrupted(root)?;
    let current = CurrentState::load(root)?;
    plan_from(root, &current, before.or(current.host()), desired, profile)
}

fn plan_from(
    root: &Root,
    current: &CurrentState,
    before: Option<&HostConfig>,
    desired: &HostConfig,
    profile: Profile,
) -> Result<Plan, TransactionError> {
    settings::ensure_usable_after(root, desired)?;
    let merging = settings::merge_policies(root, root, desired)?;
    let scope = TreeScope::Everything;
    let merging = LocalMerging::by(merging.as_ref(), root);
    let change = TreeChange { current, before, desired, profile, scope, merging };
    let mut plan = plan_tree_update(root, change)?;
    plan.unsupported.extend(os_parts(desired));
    plan.apply_policy(&settings::settings_or_default(root).disruption.policy(), before, desired);
    Ok(plan)
}

/// List the parts of a config that only an OSTree host supports.
fn os_parts(config: &HostConfig) -> impl Iterator<Item = String> {
    let os = &config.os;
    let parts = [
        ("spec.osImageURL", os.image.is_some()),
        ("spec.kernelArguments", !os.kernel_arguments.is_empty()),
        ("spec.kernelType", os.kernel_type != KernelType::Default),
        ("spec.extensions", !os.extensions.is_empty()),
        ("spec.fips", os.fips),
    ];
    let named = parts.into_iter().filter(|(_, is_set)| *is_set);
    named.map(|(part, _)| format!("{part}: a plain tree has no operating system to change"))
}

/// Apply `desired` to the tree at `root`, completely or not at all.
pub fn apply(
    root: &LockedRoot<'_>,
    desired: &DecodedConfig,
    profile: Profile,
) -> Result<TreeUpdate, TransactionError> {
    recover_first(root)?;
    objects::set_unreadable_manifest_aside(root)?;
    let decided = decide(root, desired, profile)?;
    apply::apply(root.as_root(), &NoServices, decided.change(root.boot_id()))?;
    if !decided.steps.is_empty() {
        history::note(root, HistoryEvent::Applied, decided.note(desired));
    }
    let DecidedChange { plan, generation, steps, .. } = decided;
    Ok(TreeUpdate { plan, generation, changed: !steps.is_empty() })
}

/// Decide all steps from the tree at `root`, in which no interrupted change is open, to `desired`.
pub fn decide(
    root: &LockedRoot<'_>,
    desired: &DecodedConfig,
    profile: Profile,
) -> Result<DecidedChange, TransactionError> {
    let current = CurrentState::load(root)?;
    let plan = plan_from(root, &current, current.host(), &desired.host, profile)?;
    PlanError::ensure_unobstructed(&plan)?;
    DecidedChange::of(root, &current, desired, plan, None, None, &BTreeMap::new())
}
