//! Errors of planning: the desired config cannot be applied to this host.

use crate::core::plan::Plan;
use crate::core::plan::service_actions::NotLive;
use crate::core::values::backoff::RetryClass;
use crate::core::values::refusal::RefusalList;

/// Error of a plan. Nothing on the host has changed.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The config is malformed or unsupported by the target.
    #[error("the configuration is refused: {0}")]
    Refused(#[from] RefusalList),
    /// Paths on the host prevent the change, such as a directory where the config has a file.
    #[error("the configuration cannot be applied here:{}", listed(.0))]
    Obstructed(Vec<String>),
    /// Local changes of files with the drift policy `merge` contradict the desired config.
    #[error("the configuration cannot be applied over local changes:{}", listed(.0))]
    MergeConflicts(Vec<String>),
    /// libostree's `/etc` merge would fail, so no deployment is made.
    #[error("/etc cannot be merged into the new deployment:{}", listed(.0))]
    EtcRefused(Vec<String>),
    #[error(transparent)]
    NotLive(#[from] NotLive),
}

impl PlanError {
    /// Fail if obstacles on the host prevent the plan.
    pub(crate) fn ensure_unobstructed(plan: &Plan) -> Result<(), Self> {
        let conflicts = plan.tree.as_ref().map_or(0, |tree| tree.merges.conflicts.len());
        Self::of_obstacles(plan.obstacles(), conflicts)
    }

    /// Fail if paths on the host prevent the plan. Other obstacles were judged before, by the plan of the deployment.
    pub(crate) fn ensure_paths_free(plan: &Plan) -> Result<(), Self> {
        let Some(tree) = &plan.tree else { return Ok(()) };
        let obstacles = tree.steps.obstructions.iter().chain(&tree.merges.conflicts);
        let reasons = obstacles.map(|obstacle| obstacle.reason.clone()).collect();
        Self::of_obstacles(reasons, tree.merges.conflicts.len())
    }

    /// Fail with the reasons of all obstacles, if there are any; some of them are conflicts with local changes.
    fn of_obstacles(reasons: Vec<String>, conflicts: usize) -> Result<(), Self> {
        match reasons.len() {
            0 => Ok(()),
            all if all == conflicts => Err(Self::MergeConflicts(reasons)),
            _ => Err(Self::Obstructed(reasons)),
        }
    }

    pub(crate) fn retry_class(&self) -> RetryClass {
        match self {
            Self::Refused(_) | Self::Obstructed(_) | Self::EtcRefused(_) => RetryClass::Configuration,
            Self::NotLive(_) | Self::MergeConflicts(_) => RetryClass::Repair,
        }
    }
}

fn listed(reasons: &[String]) -> String {
    reasons.iter().map(|reason| format!("\n  {reason}")).collect()
}
