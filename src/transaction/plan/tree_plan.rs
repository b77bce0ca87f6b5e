//! Plan of the changes of one tree.

use crate::core::config::host_config::HostConfig;
use crate::core::plan::tree_plan::TreePlanRequest;
use crate::core::plan::{Plan, tree_plan};
use crate::core::values::profile::Profile;
use crate::host::Root;
use crate::host::facts::tree_facts::{FactsRequest, TreeScope};
use crate::host::facts::{boot, tree_facts};
use crate::transaction::TransactionError;
use crate::transaction::plan::error::PlanError;
use crate::transaction::state::current::CurrentState;
use crate::transaction::state::settings::settings_or_default;

/// Plan the change from `before` to `desired` on the tree at `root`. `before` is usually the recorded
/// config; `plan --current` passes another one.
pub(crate) fn plan_tree_update(
    root: &Root,
    current: &CurrentState,
    before: Option<&HostConfig>,
    desired: &HostConfig,
    profile: Profile,
    reach: TreeScope,
) -> Result<Plan, TransactionError> {
    let mut plan = Plan::between(before, desired, profile).map_err(PlanError::from)?;
    let policies = settings_or_default(root).drift;
    let (active, prior) = (current.differing_active_files(root, reach)?, current.prior_changes());
    let subject = FactsRequest {
        current: before,
        desired,
        active: active.as_ref(),
        prior: &prior,
        applied_by: current.record.as_ref().map_or(profile, |record| record.profile),
        profile,
        reach,
        merging: Some(&policies),
    };
    let facts = tree_facts::gather(root, subject)?;
    let in_reach = if reach == TreeScope::Etc { prior.within("/etc") } else { prior.clone() };
    let request = TreePlanRequest {
        current: before,
        desired,
        diff: &plan.diff,
        prior: &in_reach,
        profile,
        today: boot::today(),
    };
    let (tree, unsupported) = tree_plan::plan_tree(&facts, request);
    plan.unsupported.extend(unsupported);
    plan.deferred.extend(facts.desired.deferred.iter().cloned());
    plan.tree = Some(tree);
    Ok(plan)
}
