//! Deployments of a sysroot that is not booted: check out, label, write boot entries, clean up, set the
//! default.

use std::fs::File;

use flameholder::core::values::image::ImageRef;
use flameholder::core::values::kernel_arguments::{KernelArgument, KernelArguments};
use flameholder::os::protocol::SysrootAccess;
use flameholder::os::{DeployRequest, Deployment, DeploymentId, DeploymentOrigin, OsError};
use ostree_ext::container::deploy::ORIGIN_CONTAINER;
use ostree_ext::gio::Cancellable;
use ostree_ext::prelude::FileExt as _;
use ostree_ext::sysroot::SysrootLock;
use ostree_ext::{glib, ostree};

use crate::deployments::{self, describe, find, identify, kernel_arguments};
use crate::error_classes::failure;
use crate::session::{OpenedSysroot, other, protocol_error};
use crate::{boot_entry_options, packages, stage};

/// Deployment that is checked out and has no boot entry yet.
pub(crate) struct NewDeployment {
    deployment: ostree::Deployment,
    id: DeploymentId,
    kernel_arguments: KernelArguments,
}

/// Check out a commit as a deployment, with `/etc` merged. No boot entry is written; an abandoned deployment
/// is removed by the next cleanup.
pub(crate) fn deploy(opened: &mut OpenedSysroot, request: &DeployRequest) -> Result<Deployment, OsError> {
    if opened.access == SysrootAccess::Stage {
        return Err(protocol_error("a booted sysroot is changed by staging only"));
    }
    let sysroot = &opened.sysroot;
    let (merge, origin) = prepare(sysroot, request)?;
    let arguments: Vec<&str> = request.kernel_arguments.iter().map(KernelArgument::as_str).collect();
    let options =
        ostree::SysrootDeployTreeOpts { override_kernel_argv: Some(&arguments), ..Default::default() };
    let deployment = sysroot
        .deploy_tree_with_options(
            Some(&request.stateroot),
            &request.commit,
            Some(&origin),
            Some(&merge),
            Some(&options),
            Cancellable::NONE,
        )
        .map_err(|error| failure(format!("deploying commit {}", request.commit), &error.into()))?;
    keep_for_session(opened, deployment, request)
}

/// Keep the new deployment for later requests of the session, and describe it.
pub(crate) fn keep_for_session(
    opened: &mut OpenedSysroot,
    deployment: ostree::Deployment,
    request: &DeployRequest,
) -> Result<Deployment, OsError> {
    let described = describe(&opened.sysroot, &deployment)?;
    opened.pending = Some(NewDeployment {
        deployment,
        id: described.id.clone(),
        kernel_arguments: request.kernel_arguments.clone(),
    });
    Ok(described)
}

/// Validate stateroot and kernel arguments, and return the merge deployment and the origin of the new one.
pub(crate) fn prepare(
    sysroot: &ostree::Sysroot,
    request: &DeployRequest,
) -> Result<(ostree::Deployment, glib::KeyFile), OsError> {
    ensure_stateroot(sysroot, &request.stateroot)?;
    ensure_kept(&request.kernel_arguments)?;
    let merge = find(sysroot, &request.merge)?;
    let origin = match &request.origin {
        DeploymentOrigin::Image(image) => image_origin(&merge, image)?,
        DeploymentOrigin::MergeDeployment => copied_origin(&merge)?,
        DeploymentOrigin::Deployment(id) => copied_origin(&find(sysroot, id)?)?,
    };
    if let Some(layering) = &request.layering {
        packages::set_layering(&origin, layering);
    }
    Ok((merge, origin))
}

fn ensure_stateroot(sysroot: &ostree::Sysroot, stateroot: &str) -> Result<(), OsError> {
    let Some(root) = sysroot.path().path() else {
        return Err(other("finding the stateroots", "the sysroot has no path"));
    };
    let directory = root.join("ostree/deploy");
    let entries = std::fs::read_dir(&directory)
        .map_err(|error| failure(format!("listing {}", directory.display()), &error.into()))?;
    let mut found: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    if found.iter().any(|name| name == stateroot) {
        return Ok(());
    }
    found.sort();
    Err(OsError::NoSuchStateroot { stateroot: stateroot.to_owned(), found })
}

/// Refuse kernel arguments that libostree would alter: it parses them and writes them again.
fn ensure_kept(asked: &KernelArguments) -> Result<(), OsError> {
    let arguments = ostree::KernelArgs::new();
    for argument in asked.iter().map(KernelArgument::as_str) {
        // A null byte would end the string, a line feed the `options` line of the boot entry.
        if !argument.contains(char::is_control) {
            arguments.append(argument);
        }
    }
    let written = ostree::KernelArgs::from_string(&arguments.to_string()).to_string();
    let kept = boot_entry_options::without_ostree(&written);
    if kept == *asked {
        return Ok(());
    }
    Err(OsError::KernelArguments { asked: asked.clone(), kept })
}

/// Copy the merge deployment's origin and make it follow `image`. Entries of rpm-ostree, such as layered
/// packages, stay.
fn image_origin(merge: &ostree::Deployment, image: &ImageRef) -> Result<glib::KeyFile, OsError> {
    let origin = copied_origin(merge)?;
    // The old group may name a branch or a pinned commit. An error means that the group does not exist.
    drop(origin.remove_group("origin"));
    origin.set_string("origin", ORIGIN_CONTAINER, &image.to_string());
    Ok(origin)
}

fn copied_origin(of: &ostree::Deployment) -> Result<glib::KeyFile, OsError> {
    let reading = || "keeping the origin of a deployment".to_owned();
    let kept = of.origin().ok_or_else(|| other(&reading(), "the deployment has no origin file"))?;
    // A copy, since libostree returns its own object, and reads from it if the deployment is pinned.
    let origin = glib::KeyFile::new();
    origin
        .load_from_data(&kept.to_data(), glib::KeyFileFlags::NONE)
        .map_err(|error| failure(reading(), &error.into()))?;
    // Pins and unlocked states belong to the old deployment.
    ostree::Deployment::origin_remove_transient_state(&origin);
    stage::remove_mark(&origin);
    Ok(origin)
}

/// Look up SELinux labels in the policy of the new deployment, or of the booted one if the session deployed
/// none. libostree loads a policy for the whole process: a session must not ask for two of them.
pub(crate) fn selinux_labels(
    opened: &OpenedSysroot,
    paths: &[(String, u32)],
) -> Result<Vec<Option<String>>, OsError> {
    let deployed = opened.pending.as_ref().map(|pending| pending.deployment.clone());
    let Some(deployment) = deployed.or_else(|| opened.sysroot.booted_deployment()) else {
        return Err(protocol_error(
            "no deployment was created in this session, and none of the sysroot is booted",
        ));
    };
    let root = opened.sysroot.deployment_directory(&deployment);
    let reading =
        || format!("reading the SELinux policy in {}", root.peek_path().unwrap_or_default().display());
    let policy =
        ostree::SePolicy::new(&root, Cancellable::NONE).map_err(|error| failure(reading(), &error.into()))?;
    paths
        .iter()
        .map(|(path, mode)| {
            let label = policy
                .label(path, *mode, Cancellable::NONE)
                .map_err(|error| failure(format!("looking up the label of {path}"), &error.into()))?;
            Ok(label.map(|label| label.to_string()))
        })
        .collect()
}

/// Write the boot entries, with the new deployment first.
///
/// libostree syncs the file systems of the deployments and of `/boot` before and after the switch: files
/// written into the new deployment so far are on disk when the bootloader sees it. The switch is one rename
/// of a symbolic link (`/boot/loader`, or `ostree/boot.N` if kernel and arguments are equal), so that a power
/// cut leaves all old entries or all new ones.
pub(crate) fn finish(opened: &mut OpenedSysroot) -> Result<(), OsError> {
    let pending = pending(opened)?;
    let existing = deployments::list(&opened.sysroot)?;
    let objects = opened.sysroot.deployments();
    let mut wanted = vec![pending.deployment.clone()];
    wanted.extend(
        objects
            .into_iter()
            .zip(retained(&existing, &pending.id.stateroot))
            .filter_map(|(deployment, stays)| stays.then_some(deployment)),
    );
    let doing = format!("writing the boot entry of deployment {}", pending.id);
    let options = ostree::SysrootWriteDeploymentsOpts { do_postclean: true };
    opened
        .sysroot
        .write_deployments_with_options(&wanted, &options, Cancellable::NONE)
        .map_err(|error| failure(doing, &error.into()))?;
    ensure_written(opened, pending)?;
    opened.pending = None;
    prune_images(&opened.sysroot);
    Ok(())
}

/// Remove images that no deployment uses any more, with the layers that only they have.
fn prune_images(sysroot: &ostree::Sysroot) {
    let locked = SysrootLock::from_assumed_locked(sysroot);
    if let Err(error) = ostree_ext::container::deploy::prune(&locked) {
        // Not fatal: the new deployment boots, and the next cleanup prunes again.
        eprintln!("unused images are not removed from the repository: {error:#}");
    }
}

/// Decide for each deployment if it stays beside a new one of this stateroot: its previous default, pinned
/// ones, and those of other stateroots stay.
fn retained(existing: &[Deployment], stateroot: &str) -> Vec<bool> {
    let of_stateroot = |deployment: &&Deployment| deployment.id.stateroot == stateroot;
    let default = existing.iter().find(of_stateroot).map(|deployment| &deployment.id);
    existing
        .iter()
        .map(|deployment| !of_stateroot(&deployment) || deployment.pinned || Some(&deployment.id) == default)
        .collect()
}

/// Read the boot entries back, and fail unless the new deployment is first with its kernel arguments.
fn ensure_written(opened: &OpenedSysroot, pending: &NewDeployment) -> Result<(), OsError> {
    let written = ostree::Sysroot::new(Some(&opened.sysroot.path()));
    written
        .load(Cancellable::NONE)
        .map_err(|error| failure("reading the boot entries back".into(), &error.into()))?;
    let deployments = written.deployments();
    let Some(first) = deployments.first() else {
        return Err(other("reading the boot entries back", "there are no deployments"));
    };
    let kept = kernel_arguments(first);
    if identify(first)? != pending.id {
        return Err(other("reading the boot entries back", "another deployment is the first"));
    }
    if kept != pending.kernel_arguments {
        return Err(other("reading the boot entries back", &format!("the kernel arguments are {kept:?}")));
    }
    Ok(())
}

/// Remove deployments and kernels without a boot entry, and images without a deployment.
pub(crate) fn clean_up(opened: &mut OpenedSysroot) -> Result<(), OsError> {
    if opened.sysroot.staged_deployment().is_none() {
        stage::set_staged_ref(&opened.sysroot, None)?;
    }
    let cleaned = opened.sysroot.cleanup(Cancellable::NONE);
    cleaned.map_err(|error| failure("removing unused deployments and kernels".into(), &error.into()))?;
    prune_images(&opened.sysroot);
    Ok(())
}

/// Move a deployment to the front of the boot order.
pub(crate) fn set_default(opened: &mut OpenedSysroot, id: &DeploymentId) -> Result<(), OsError> {
    let chosen = find(&opened.sysroot, id)?;
    let mut order = opened.sysroot.deployments();
    order.retain(|deployment| !deployment.equal(&chosen));
    order.insert(0, chosen);
    let options = ostree::SysrootWriteDeploymentsOpts { do_postclean: false };
    opened
        .sysroot
        .write_deployments_with_options(&order, &options, Cancellable::NONE)
        .map_err(|error| failure(format!("making deployment {id} the default"), &error.into()))
}

/// Pin a deployment, or take its pin off. Durable on return: the caller then removes its note, which can be on another file
/// system.
pub(crate) fn set_pinned(opened: &mut OpenedSysroot, id: &DeploymentId, pinned: bool) -> Result<(), OsError> {
    let deployment = find(&opened.sysroot, id)?;
    let doing = || format!("{} deployment {id}", if pinned { "pinning" } else { "unpinning" });
    if deployment.is_pinned() != pinned {
        let set = opened.sysroot.deployment_set_pinned(&deployment, pinned);
        set.map_err(|error| failure(doing(), &error.into()))?;
    }
    // libostree renames the new origin file into its place without a flush of the directory.
    let sysroot = opened.sysroot.path().path().unwrap_or_default();
    let directory = sysroot.join("ostree/deploy").join(&id.stateroot).join("deploy");
    let flushed = File::open(directory).and_then(|directory| directory.sync_all());
    flushed.map_err(|error| failure(doing(), &error.into()))
}

fn pending(opened: &OpenedSysroot) -> Result<&NewDeployment, OsError> {
    opened.pending.as_ref().ok_or_else(|| protocol_error("no deployment was created in this session"))
}
