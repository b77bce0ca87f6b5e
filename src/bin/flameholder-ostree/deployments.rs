//! Deployments of a sysroot, read from libostree into plain data.

use flameholder::core::values::kernel_arguments::KernelArguments;
use flameholder::os::{Deployment, DeploymentId, OsError};
use ostree_ext::container::deploy::ORIGIN_CONTAINER;
use ostree_ext::container::store;
use ostree_ext::{glib, ostree};

use crate::error_classes::failure;
use crate::{boot_entry_options, packages, stage};

/// List all deployments of a loaded sysroot, in boot order.
pub(crate) fn list(sysroot: &ostree::Sysroot) -> Result<Vec<Deployment>, OsError> {
    let deployments = sysroot.deployments();
    deployments.iter().map(|deployment| describe(sysroot, deployment)).collect()
}

/// Find a deployment by stateroot, commit and serial.
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
    // A commit with layered packages lacks the image's metadata: read its base commit.
    let base = packages::base(&sysroot.repo(), &id.commit, &commit)?;
    let is_client_layer = base.is_some();
    let (base_commit, commit) = base.unwrap_or((id.commit.clone(), commit));
    // An error means that the commit did not come as a container image, or that its layers are removed: both
    // are fine.
    let image_state = store::query_image_commit(&sysroot.repo(), &base_commit).ok();
    let image_version = image_state.as_ref().and_then(|state| state.version().map(str::to_owned));
    Ok(Deployment {
        kernel_arguments: kernel_arguments(deployment),
        image: image_of_origin(deployment),
        manifest_digest: store::manifest_digest_from_commit(&commit).ok().map(|digest| digest.to_string()),
        layering: deployment.origin().map(|origin| packages::layering(&origin)).unwrap_or_default(),
        is_client_layer,
        version: image_version.or_else(|| commit_version(&commit)),
        pinned: deployment.is_pinned(),
        staged: deployment.is_staged(),
        locked: deployment.is_staged() && stage::is_locked(),
        staged_in: deployment
            .origin()
            .filter(|_| deployment.is_staged())
            .and_then(|origin| stage::mark(&origin)),
        booted: sysroot.booted_deployment().is_some_and(|booted| booted.equal(deployment)),
        id,
    })
}

/// Return the kernel arguments of the (future) boot entry.
pub(crate) fn kernel_arguments(deployment: &ostree::Deployment) -> KernelArguments {
    let options = deployment.bootconfig().and_then(|bootconfig| bootconfig.get("options"));
    options.map_or_else(KernelArguments::default, |options| boot_entry_options::without_ostree(&options))
}

fn image_of_origin(deployment: &ostree::Deployment) -> Option<flameholder::core::values::image::ImageRef> {
    // No image: the key is missing, or its syntax is of a newer program.
    let reference = deployment.origin()?.string("origin", ORIGIN_CONTAINER).ok()?;
    reference.parse().ok()
}

fn commit_version(commit: &glib::Variant) -> Option<String> {
    let metadata = glib::VariantDict::new(Some(&commit.child_value(0)));
    metadata.lookup::<String>("version").ok().flatten()
}
