//! Removal of what no deployment needs any more: trees, images, objects of the store, and an adopted copy of the agent.

use std::collections::BTreeSet;
use std::path::Path;

use crate::host::facts::booted::{SYSROOT, open_beside_booted, open_deployment};
use crate::host::{LockedHost, Root};
use crate::os::{DeploymentId, Sysroot};
use crate::transaction::TransactionError;
use crate::transaction::engine::apply;
use crate::transaction::engine::labels::SelinuxLabels;
use crate::transaction::plan::adopted_copy;
use crate::transaction::state::current::CurrentState;
use crate::transaction::state::{objects, pending};

/// Remove what no deployment of the running host needs any more: trees, kernels, images, and objects of the store. Data of
/// older and of superseded generations only occupies space, so a failure is logged.
pub(crate) fn clean_up(os: &mut dyn Sysroot, host: &LockedHost<'_>) {
    let stateroot = &host.running.booted.deployment.stateroot;
    let cleaned = os
        .clean_up()
        .map_err(TransactionError::from)
        .and_then(|()| prune_objects(os, Path::new(SYSROOT), stateroot, Some(host)))
        .and_then(|()| prune_adopted_copy(os, host).map(drop));
    if let Err(error) = cleaned {
        log::warn!("cannot clean up after older generations: {}; the next update tries again", error.chain());
    }
}

/// Remove the executables of an adopted copy of the agent once no deployment of the stateroot has its units. A
/// staged deployment gets its units when it is finalized, so nothing is removed before. Returns the deployment that still
/// needs them.
pub(crate) fn prune_adopted_copy(
    os: &mut dyn Sysroot,
    host: &LockedHost<'_>,
) -> Result<Option<DeploymentId>, TransactionError> {
    let steps = adopted_copy::executables_removal(host)?;
    if steps.is_empty() {
        return Ok(None);
    }
    let stateroot = &host.running.booted.deployment.stateroot;
    for deployment in os.deployments()?.into_iter().filter(|other| other.id.stateroot == *stateroot) {
        let root = open_beside_booted(&deployment.id)?;
        if deployment.staged || adopted_copy::has_installed_units(&root)? {
            return Ok(Some(deployment.id));
        }
    }
    apply::write_to_unused(host.as_root(), &steps, &SelinuxLabels::new())?;
    Ok(None)
}

/// Remove objects from the store that neither a deployment of the stateroot nor the pending generation
/// references. `running` is the root of the running system, if that is this sysroot's.
pub(crate) fn prune_objects(
    os: &mut dyn Sysroot,
    sysroot: &Path,
    stateroot: &str,
    running: Option<&Root>,
) -> Result<(), TransactionError> {
    let mut live = BTreeSet::new();
    let mut last = None;
    for deployment in os.deployments()?.into_iter().filter(|other| other.id.stateroot == stateroot) {
        // A staged deployment has no record yet; its objects are referenced by the pending record.
        let root = open_deployment(sysroot, &deployment.id)?;
        live.extend(CurrentState::load_record(&root)?.and_then(|record| record.manifest));
        last = Some(root);
    }
    let Some(root) = running.or(last.as_ref()) else { return Ok(()) };
    live.extend(objects::load_active(root)?.and_then(|active| active.manifest));
    live.extend(pending::load(root)?.and_then(|pending| pending.staged.record.manifest));
    let live = objects::load_referenced(root, live)?;
    let garbage = objects::prune(root, &live)?;
    Ok(apply::write_to_unused(root, &garbage, &SelinuxLabels::new())?)
}
