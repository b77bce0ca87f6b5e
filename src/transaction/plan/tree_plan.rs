//! Plan of the changes of one tree.

use crate::core::config::host_config::HostConfig;
use crate::core::plan::tree_plan::TreePlanRequest;
use crate::core::plan::{Plan, tree_plan};
use crate::core::values::profile::Profile;
use crate::host::Root;
use crate::host::facts::tree_facts::{FactsRequest, LocalMerging, TreeScope};
use crate::host::facts::{boot, tree_facts};
use crate::transaction::TransactionError;
use crate::transaction::plan::error::PlanError;
use crate::transaction::state::current::CurrentState;

/// Change of one tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TreeChange<'a> {
    pub(crate) current: &'a CurrentState,
    /// Config before the change: usually the recorded one; `plan --current` passes another one.
    pub(crate) before: Option<&'a HostConfig>,
    pub(crate) desired: &'a HostConfig,
    pub(crate) profile: Profile,
    pub(crate) scope: TreeScope,
    /// How local changes are merged; `None` where none are.
    pub(crate) merging: Option<LocalMerging<'a>>,
}

/// Plan a change of the tree at `root`.
pub(crate) fn plan_tree_update(root: &Root, change: TreeChange<'_>) -> Result<Plan, TransactionError> {
    let TreeChange { current, before, desired, profile, scope, merging } = change;
    let mut plan = Plan::between(before, desired, profile).map_err(PlanError::from)?;
    let (active, prior) = (current.differing_active_files(root, scope)?, current.prior_changes());
    let subject = FactsRequest {
        current: before,
        desired,
        active: active.as_ref(),
        prior: &prior,
        applied_by: current.record.as_ref().map_or(profile, |record| record.profile),
        profile,
        scope,
        merging,
    };
    let facts = tree_facts::gather(root, subject)?;
    let in_scope = if scope == TreeScope::Etc { prior.within("/etc") } else { prior.clone() };
    let request = TreePlanRequest {
        current: before,
        desired,
        diff: &plan.diff,
        prior: &in_scope,
        profile,
        today: boot::today(),
    };
    let (tree, unsupported) = tree_plan::plan_tree(&facts, request);
    plan.unsupported.extend(unsupported);
    plan.deferred.extend(facts.desired.deferred.iter().cloned());
    plan.tree = Some(tree);
    Ok(plan)
}
