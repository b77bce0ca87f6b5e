//! What libostree's merge of `/etc` will do, found before anything is deployed.

use std::path::Path;

use crate::core::etc_merge::{EtcMerge, SpecialFiles};
use crate::core::plan::{EtcPlan, MergeImage};
use crate::core::values::image::ImageRef;
use crate::core::values::names::ManagedPath;
use crate::host::fs::etc_tree::{EtcTree, digest_where_needed};
use crate::host::{HostError, Root};
use crate::os::{Deployment, DeploymentId, ImportedCommit, OsError, Sysroot};

use super::deployment_plan::DeploymentPlan;
use crate::transaction::TransactionError;
use crate::transaction::plan::deployment_plan::unchanged_generation;
use crate::transaction::plan::target::UpdateTarget;

/// What the image ships as `/etc`.
const SHIPPED: &str = "/usr/etc";
/// What became of it.
const LOCAL: &str = "/etc";

/// Merges the `/etc` of the deployment at `merge` with that of the one at `new`, or with that of its own image.
///
/// Both are the directories of deployments. `/` shows the running one, but also what is mounted on its `/etc`,
/// which libostree does not see.
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

/// Two deployments and the merge of the first one's `/etc` with the second one's.
#[derive(Debug)]
pub struct EtcDiff {
    /// The deployment that is merged from.
    pub from: DeploymentId,
    /// The deployment whose image it is merged with.
    pub to: DeploymentId,
    /// What comes of it.
    pub merge: EtcMerge,
}

/// Merges from the running deployment, or else the one that boots next, with the one that `to` names by the first
/// digits of its commit, or else with the staged or pending one, or else with itself: that shows local changes alone.
pub fn diff(os: &mut dyn Sysroot, sysroot: &Path, to: Option<&str>) -> Result<EtcDiff, TransactionError> {
    let deployments = os.deployments()?;
    let booted = deployments.iter().find(|deployment| deployment.booted);
    let default = || deployments.iter().find(|deployment| !deployment.staged);
    let Some(from) = booted.or_else(default) else {
        return Err(TransactionError::NoDeployment(sysroot.display().to_string()));
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

/// What is before the running deployment in boot order waits to be booted.
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

/// Completes the plan by the merge that it leads to, where the next image's `/usr/etc` is here already.
pub(crate) fn predict_merge(
    os: &mut dyn Sysroot,
    target: UpdateTarget<'_>,
    draft: &mut DeploymentPlan,
) -> Result<(), TransactionError> {
    let deployments = os.deployments()?;
    let next = match (&draft.image, target.again()) {
        (None, Some(again)) => Some(again),
        (None, None) if draft.packages.is_empty() => Some(&draft.base),
        (None, None) => None,
        (Some(image), _) => deployments.iter().find(|deployment| is_of_image(deployment, image)),
    };
    let merge = open_deployment(target.site.sysroot(), &draft.base.id)?;
    let other = next.filter(|next| next.id.commit != draft.base.id.commit);
    let new = other.map(|next| open_deployment(target.site.sysroot(), &next.id)).transpose()?;
    let findings = predict(&merge, new.as_ref(), os.special_files())?.findings;
    let with = if next.is_some() { MergeImage::Next } else { MergeImage::Present };
    draft.plan.etc = Some(EtcPlan { with, is_due: unchanged_generation(draft, target).is_none(), findings });
    Ok(())
}

/// Whether the deployment is this very image. A tag or a directory can hold another one by now.
fn is_of_image(deployment: &Deployment, image: &ImageRef) -> bool {
    let by_name = || deployment.image.as_ref().is_some_and(|deployed| deployed.is_same_image(image));
    image.digest().is_some_and(|digest| deployment.manifest_digest.as_deref() == Some(digest) || by_name())
}

/// Fails where libostree would refuse to merge into the commit that is deployed next. Only now is it known what an
/// image that had to be imported ships as `/etc`.
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
    let otherwise = target.again().map_or(&base.commit, |again| &again.id.commit);
    let commit = imported.map_or(otherwise, |imported| &imported.commit);
    let merge = open_deployment(target.site.sysroot(), base)?;
    let new = if *commit == base.commit { None } else { Some(Root::open(&os.check_out_etc(commit)?)?) };
    ensure_accepted(&predict(&merge, new.as_ref(), os.special_files())?)
}

/// Fails where libostree would refuse this merge.
pub(crate) fn ensure_accepted(merge: &EtcMerge) -> Result<(), TransactionError> {
    let refusals: Vec<String> = merge.findings.refusals.iter().map(ToString::to_string).collect();
    if refusals.is_empty() { Ok(()) } else { Err(TransactionError::EtcRefused(refusals)) }
}

fn open_deployment(sysroot: &Path, id: &DeploymentId) -> Result<Root, HostError> {
    Root::open(&sysroot.join(id.path()))
}
