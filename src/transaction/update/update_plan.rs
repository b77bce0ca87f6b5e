//! Plan of an update of a host or of a sysroot, without effect.

use super::space;
use crate::core::plan::Plan;
use crate::core::values::image::ImageRef;
use crate::os::Sysroot;
use crate::transaction::TransactionError;
use crate::transaction::plan::deployment_plan::plan_deployment;
use crate::transaction::plan::etc_merge;
use crate::transaction::plan::target::{TargetSysroot, UpdateTarget};
use crate::transaction::state::current::DecodedConfig;

/// Plan, with the config that it starts from.
#[derive(Debug)]
pub struct PlannedUpdate {
    pub plan: Plan,
    /// Current config.
    pub before: Option<DecodedConfig>,
    /// OS image to import; `None` if that of the present deployment stays.
    pub image: Option<ImageRef>,
}

/// Plan an update without changing anything.
pub fn plan(os: &mut dyn Sysroot, target: UpdateTarget<'_>) -> Result<PlannedUpdate, TransactionError> {
    let mut draft = plan_deployment(os, target)?;
    etc_merge::predict_merge(os, target, &mut draft)?;
    if let TargetSysroot::Running(host) = target.sysroot {
        let checks = space::preflight(os, host, &draft)?;
        if let Some(tree) = &mut draft.plan.tree {
            tree.preflight.extend(checks);
        }
    }
    Ok(PlannedUpdate { plan: draft.plan, before: draft.current.configuration, image: draft.image })
}
