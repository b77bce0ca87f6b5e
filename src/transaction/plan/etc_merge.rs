//! Prediction of libostree's `/etc` merge, before anything is deployed.

use std::path::Path;

use super::deployment_plan::DeploymentPlan;
use crate::core::etc_merge::{EtcMerge, SpecialFiles};
use crate::core::plan::{EtcPlan, MergeImage};
use crate::core::values::image::ImageRef;
use crate::core::values::names::ManagedPath;
use crate::host::fs::etc_tree::{EtcTree, digest_where_needed};
use crate::host::{HostError, Root};
use crate::os::{Deployment, DeploymentId, ImportedCommit, OsError, Sysroot};
use crate::transaction::TransactionError;
use crate::transaction::plan::deployment_plan::unchanged_generation;
use crate::transaction::plan::error::PlanError;
use crate::transaction::plan::target::UpdateTarget;
use crate::transaction::state::error::StateError;

/// Defaults of `/etc` in an image.
const SHIPPED: &str = "/usr/etc";
/// Local `/etc` of a deployment.
const LOCAL: &str = "/etc";

/// Predict the merge of the `/etc` of the deployment at `merge` with the defaults of the deployment at
/// `new`; `None` merges with its own defaults.
///
/// Both roots are deployment directories. `/` would show the booted deployment with mounts on `/etc`, which
/// libostree does not see.
pub fn predict(merge: &Root, new: Option<&Root>, special_files: SpecialFiles) -> Result<EtcMerge, HostError> {
    let read = |root, place| EtcTree::read(root, &ManagedPath::constant(place));
    let (mut base, mut local) = (read(merge, SHIPPED)?, read(merge, LOCAL)?);
    let mut new = new.map(|new| read(new, SHIPPED)).transpose()?;
    let mut trees = vec![&mut base, &mut local];
    trees.extend(new.as_mut());
    digest_where_needed(&mut trees)?;
    let new = new.as_ref().unwrap_or(&base).node();
    Ok(EtcMerge::of(base.node(), local.node(), new, special_files))
}

/// Two deployments, and the predicted merge of the first one's `/etc` with the second one's defaults.
#[derive(Debug)]
pub struct EtcDiff {
    /// Merge deployment, whose local changes are carried over.
    pub from: DeploymentId,
    /// Deployment with the new defaults.
    pub to: DeploymentId,
    pub merge: EtcMerge,
}

/// Predict the merge from the booted deployment (or else the default one) to the deployment whose commit
/// begins with `to`. Without `to`: the staged or pending deployment, or else the deployment itself, which
/// shows local changes alone.
pub fn diff(os: &mut dyn Sysroot, sysroot: &Path, to: Option<&str>) -> Result<EtcDiff, TransactionError> {
    let deployments = os.deployments()?;
    let booted = deployments.iter().find(|deployment| deployment.booted);
    let default = || deployments.iter().find(|deployment| !deployment.staged);
    let Some(from) = booted.or_else(default) else {
        return Err(StateError::NoDeployment(sysroot.display().to_string()).into());
    };
    let to = match to {
        Some(name) => find_by_commit(&deployments, name)?,
        None => next(&deployments, from),
    };
    let merge = open_deployment(sysroot, &from.id)?;
    let new = if to.id.commit == from.id.commit { None } else { Some(open_deployment(sysroot, &to.id)?) };
    let merge = predict(&merge, new.as_ref(), os.special_files())?;
    Ok(EtcDiff { from: from.id.clone(), to: to.id.clone(), merge })
}

/// Return the staged or pending deployment: in boot order, the one before the booted deployment.
fn next<'a>(deployments: &'a [Deployment], from: &'a Deployment) -> &'a Deployment {
    let before = deployments.iter().take_while(|other| other.id != from.id);
    before.filter(|other| other.id.stateroot == from.id.stateroot).last().unwrap_or(from)
}

fn find_by_commit<'a>(deployments: &'a [Deployment], name: &str) -> Result<&'a Deployment, OsError> {
    let is_named = |id: &DeploymentId| format!("{}.{}", id.commit, id.serial).starts_with(name);
    let mut found = deployments.iter().filter(|other| is_named(&other.id));
    match (found.next(), found.next()) {
        (Some(found), None) => Ok(found),
        _ => Err(OsError::NoSuchDeployment { deployment: name.to_owned() }),
    }
}

/// Add the predicted merge to the plan. If the next image is not imported yet, the base's own defaults
/// stand in.
pub(crate) fn predict_merge(
    os: &mut dyn Sysroot,
    target: UpdateTarget<'_>,
    draft: &mut DeploymentPlan,
) -> Result<(), TransactionError> {
    let deployments = os.deployments()?;
    let next = match (&draft.image, target.redeployed()) {
        (None, Some(again)) => Some(again),
        (None, None) if draft.packages.is_empty() => Some(&draft.base),
        (None, None) => None,
        (Some(image), _) => deployments.iter().find(|deployment| is_of_image(deployment, image)),
    };
    let merge = open_deployment(target.sysroot.path(), &draft.base.id)?;
    let other = next.filter(|next| next.id.commit != draft.base.id.commit);
    let new = other.map(|next| open_deployment(target.sysroot.path(), &next.id)).transpose()?;
    let findings = predict(&merge, new.as_ref(), os.special_files())?.findings;
    let with = if next.is_some() { MergeImage::Next } else { MergeImage::Present };
    draft.plan.etc = Some(EtcPlan { with, is_due: unchanged_generation(draft, target).is_none(), findings });
    Ok(())
}

/// Return true if the deployment has this very image. An image without a digest can have changed since.
fn is_of_image(deployment: &Deployment, image: &ImageRef) -> bool {
    let by_name = || deployment.image.as_ref().is_some_and(|deployed| deployed.is_same_image(image));
    image.digest().is_some_and(|digest| deployment.manifest_digest.as_deref() == Some(digest) || by_name())
}

/// Fail if libostree would refuse the merge into the next commit. Runs again after an import, because only
/// then the image's `/usr/etc` is known.
pub(crate) fn ensure_mergeable(
    os: &mut dyn Sysroot,
    target: UpdateTarget<'_>,
    draft: &DeploymentPlan,
    imported: Option<&ImportedCommit>,
) -> Result<(), TransactionError> {
    let foreseen = draft.plan.etc.as_ref().is_some_and(|etc| etc.with == MergeImage::Next);
    if foreseen && imported.is_none() {
        return Ok(());
    }
    let base = &draft.base.id;
    let otherwise = target.redeployed().map_or(&base.commit, |again| &again.id.commit);
    let commit = imported.map_or(otherwise, |imported| &imported.commit);
    let merge = open_deployment(target.sysroot.path(), base)?;
    let new = if *commit == base.commit { None } else { Some(Root::open(&os.check_out_etc(commit)?)?) };
    ensure_accepted(&predict(&merge, new.as_ref(), os.special_files())?)
}

/// Fail if the predicted merge contains refusals.
pub(crate) fn ensure_accepted(merge: &EtcMerge) -> Result<(), TransactionError> {
    let refusals: Vec<String> = merge.findings.refusals.iter().map(ToString::to_string).collect();
    if refusals.is_empty() { Ok(()) } else { Err(PlanError::EtcRefused(refusals).into()) }
}

fn open_deployment(sysroot: &Path, id: &DeploymentId) -> Result<Root, HostError> {
    Root::open(&sysroot.join(id.path()))
}
