//! New deployment of a generation: the request for it, and the record of it.

use super::error::UpdateError;
use crate::core::state::record::DeploymentRecord;
use crate::core::values::identifiers::GenerationId;
use crate::core::values::kernel_arguments::KernelArgument;
use crate::core::values::paths::GENERATION_ARGUMENT;
use crate::host::Root;
use crate::os::{DeployRequest, Deployment, DeploymentOrigin, ImportedCommit};
use crate::transaction::TransactionError;
use crate::transaction::plan::adopted_copy;
use crate::transaction::plan::deployment_plan::DeploymentPlan;
use crate::transaction::plan::target::UpdateTarget;

/// Fail if `next`, the tree of the new `deployment`, would boot without an agent.
pub(crate) fn ensure_agent(
    base: &Root,
    next: &Root,
    deployment: &Deployment,
) -> Result<(), TransactionError> {
    if !adopted_copy::is_lost_in(base, next)? {
        return Ok(());
    }
    let image = deployment.image.as_ref().map(|image| image.name().to_owned());
    Err(UpdateError::AgentMissing(image.unwrap_or_else(|| deployment.id.commit.clone())).into())
}

/// Compose the request for a new deployment.
pub(crate) fn deploy_request(
    draft: &DeploymentPlan,
    imported: Option<&ImportedCommit>,
    again: Option<&Deployment>,
    generation: &GenerationId,
) -> DeployRequest {
    let base = &draft.base.id;
    let mut kernel_arguments = draft.kernel_arguments.clone();
    kernel_arguments.push(KernelArgument::with_value(GENERATION_ARGUMENT, generation));
    let (commit, origin) = match (again, imported, &draft.image) {
        (Some(again), ..) => (&again.id.commit, DeploymentOrigin::Deployment(again.id.clone())),
        (None, Some(imported), Some(image)) => (&imported.commit, DeploymentOrigin::Image(image.clone())),
        // The same image with other packages.
        (None, Some(imported), None) => (&imported.commit, DeploymentOrigin::MergeDeployment),
        (None, None, _) => (&base.commit, DeploymentOrigin::MergeDeployment),
    };
    DeployRequest {
        stateroot: base.stateroot.clone(),
        commit: commit.clone(),
        origin,
        merge: base.clone(),
        kernel_arguments,
        layering: None,
        replaces: None,
    }
}

/// Compose the deployment part of a generation record.
pub(crate) fn deployment_record(
    deployment: &Deployment,
    draft: &DeploymentPlan,
    imported: Option<&ImportedCommit>,
    target: UpdateTarget<'_>,
) -> DeploymentRecord {
    let host = &target.desired.host;
    let source = target.redeployed().unwrap_or(&draft.base);
    let image = draft.image.as_ref().or(source.image.as_ref());
    let digest = imported.and_then(|imported| imported.manifest_digest.clone());
    let image_digest = digest.or_else(|| source.manifest_digest.clone());
    let pulled = imported.and_then(|imported| imported.signature.clone());
    let applied = draft.current.record.as_ref().and_then(|record| record.deployment.as_ref());
    let kept = applied.filter(|applied| applied.image_digest == image_digest);
    DeploymentRecord {
        stateroot: deployment.id.stateroot.clone(),
        commit: deployment.id.commit.clone(),
        serial: deployment.id.serial,
        image: image.map(ToString::to_string),
        image_digest,
        signature: pulled.or_else(|| kept.and_then(|applied| applied.signature.clone())),
        config_image: host.os.image.clone(),
        kernel_arguments: host.os.kernel_arguments.clone(),
        taken_over: draft.taken_over.clone(),
    }
}
