//! What libostree knows about deployments, as plain data.

use flameholder::os::{Deployment, DeploymentId, OsError};
use ostree_ext::container::deploy::ORIGIN_CONTAINER;
use ostree_ext::container::store;
use ostree_ext::{glib, ostree};

use crate::classify::failure;
use crate::{options, packages, stage};

/// All deployments of a loaded sysroot, in boot order.
pub(crate) fn list(sysroot: &ostree::Sysroot) -> Result<Vec<Deployment>, OsError> {
    let deployments = sysroot.deployments();
    deployments.iter().map(|deployment| describe(sysroot, deployment)).collect()
}

/// The deployment of that name.
pub(crate) fn find(sysroot: &ostree::Sysroot, id: &DeploymentId) -> Result<ostree::Deployment, OsError> {
    let matches = |deployment: &ostree::Deployment| identify(deployment).is_ok_and(|found| found == *id);
    let deployments = sysroot.deployments();
    deployments
        .into_iter()
        .find(matches)
        .ok_or_else(|| OsError::NoSuchDeployment { deployment: id.to_string() })
}

pub(crate) fn identify(deployment: &ostree::Deployment) -> Result<DeploymentId, OsError> {
    let serial = deployment.deployserial();
    let serial = u32::try_from(serial)
        .map_err(|error| failure(format!("reading the deployment serial {serial}"), &error.into()))?;
    Ok(DeploymentId {
        stateroot: deployment.osname().to_string(),
        commit: deployment.csum().to_string(),
        serial,
    })
}

pub(crate) fn describe(
    sysroot: &ostree::Sysroot,
    deployment: &ostree::Deployment,
) -> Result<Deployment, OsError> {
    let id = identify(deployment)?;
    let (commit, _state) = sysroot
        .repo()
        .load_commit(&id.commit)
        .map_err(|error| failure(format!("reading the commit of deployment {id}"), &error.into()))?;
    // What packages were put onto has the image's own metadata.
    let base = packages::base(&sysroot.repo(), &id.commit, &commit)?;
    let (base_commit, commit) = base.unwrap_or((id.commit.clone(), commit));
    // A commit that did not come as a container image has no manifest; its image, if it has one, needs no layers here.
    let image_state = store::query_image_commit(&sysroot.repo(), &base_commit).ok();
    let image_version = image_state.as_ref().and_then(|state| state.version().map(str::to_owned));
    Ok(Deployment {
        kernel_arguments: kernel_arguments(deployment),
        image: image_of_origin(deployment),
        manifest_digest: store::manifest_digest_from_commit(&commit).ok().map(|digest| digest.to_string()),
        layering: deployment.origin().map(|origin| packages::layering(&origin)).unwrap_or_default(),
        version: image_version.or_else(|| commit_version(&commit)),
        pinned: deployment.is_pinned(),
        staged: deployment.is_staged(),
        locked: deployment.is_staged() && stage::is_locked(),
        booted: sysroot.booted_deployment().is_some_and(|booted| booted.equal(deployment)),
        id,
    })
}

/// The arguments of the boot entry, or those that it will have.
pub(crate) fn kernel_arguments(deployment: &ostree::Deployment) -> Vec<String> {
    let options = deployment.bootconfig().and_then(|bootconfig| bootconfig.get("options"));
    options.map_or_else(Vec::new, |options| options::without_ostree(&options))
}

fn image_of_origin(deployment: &ostree::Deployment) -> Option<flameholder::core::values::image::ImageRef> {
    // Missing key, or a notation that only a newer program knows: not ours to compare with.
    let reference = deployment.origin()?.string("origin", ORIGIN_CONTAINER).ok()?;
    reference.parse().ok()
}

fn commit_version(commit: &glib::Variant) -> Option<String> {
    let metadata = glib::VariantDict::new(Some(&commit.child_value(0)));
    metadata.lookup::<String>("version").ok().flatten()
}
