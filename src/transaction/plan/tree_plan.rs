//! A plan for a tree: what it was, what it should be, and what it looks like.

use crate::core::config::host_config::HostConfig;
use crate::core::plan::Plan;
use crate::core::plan::tree_plan;
use crate::core::plan::tree_plan::TreePlanRequest;
use crate::core::values::profile::Profile;
use crate::host::Root;
use crate::host::facts::boot;
use crate::host::facts::tree_facts;
use crate::host::facts::tree_facts::{FactsRequest, TreeScope};

use crate::transaction::TransactionError;
use crate::transaction::state::current::CurrentState;

/// Plans going from `before` to `desired` on the tree at `root`. `before` is the recorded
/// configuration unless somebody asks from another.
pub fn plan_tree_update(
    root: &Root,
    current: &CurrentState,
    before: Option<&HostConfig>,
    desired: &HostConfig,
    profile: Profile,
    reach: TreeScope,
) -> Result<Plan, TransactionError> {
    let mut plan = Plan::between(before, desired, profile);
    let (active, remembered) = (current.active_elsewhere(root, reach)?, current.remembered());
    let subject = FactsRequest {
        current: before,
        desired,
        active: active.as_ref(),
        remembered: &remembered,
        applied_by: current.record.as_ref().map_or(profile, |record| record.profile),
        profile,
        reach,
    };
    let facts = tree_facts::gather(root, subject)?;
    let in_reach = if reach == TreeScope::Etc { remembered.within("/etc") } else { remembered.clone() };
    let request = TreePlanRequest {
        current: before,
        desired,
        diff: &plan.diff,
        remembered: &in_reach,
        profile,
        today: boot::today(),
    };
    let (tree, unsupported) = tree_plan::plan_tree(&facts, request);
    plan.unsupported.extend(unsupported);
    plan.deferred.extend(facts.desired.deferred.iter().cloned());
    plan.tree = Some(tree);
    Ok(plan)
}
