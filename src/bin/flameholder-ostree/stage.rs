//! Staged deployments of the booted sysroot: stage locked, unlock, unstage.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::SystemTime;

use flameholder::core::values::identifiers::BootId;
use flameholder::core::values::kernel_arguments::KernelArgument;
use flameholder::host::facts::boot;
use flameholder::host::mount_namespace::{MountNamespace, NamespaceError};
use flameholder::os::{DeployRequest, Deployment, DeploymentId, DeploymentOrigin, OsError};
use ostree_ext::gio::Cancellable;
use ostree_ext::prelude::FileExt as _;
use ostree_ext::{glib, ostree};

use crate::deploy::{keep_for_session, prepare};
use crate::deployments::{find, identify};
use crate::error_classes::failure;
use crate::packages;
use crate::session::{OpenedSysroot, other};

/// While this file exists, no version of libostree finalizes the staged deployment. Newer versions can also
/// store the lock in [`STAGED`]; these bindings cannot, and every version honours the file.
const LOCK: &str = "/run/ostree/staged-deployment-locked";

/// Group and key of an origin that hold the ID of the boot in which this agent staged the deployment.
const MARK_GROUP: &str = "flameholder";
const MARK_KEY: &str = "staged-in-boot";

/// Return the boot in which this agent staged the deployment with this origin, or the one whose origin it copies: a
/// program that copies the origin of a deployment with its mark does so in a later boot.
pub(crate) fn mark(origin: &glib::KeyFile) -> Option<BootId> {
    origin.string(MARK_GROUP, MARK_KEY).ok().map(|boot| boot.as_str().into())
}

/// Remove the mark from a copied origin.
pub(crate) fn remove_mark(origin: &glib::KeyFile) {
    // An error means that there is none.
    drop(origin.remove_group(MARK_GROUP));
}

/// Ref to the commit that was staged last.
const STAGED_REF: &str = "flameholder/staged";

/// Enter a private mount namespace on a booted host, where `/sysroot` is read-only and libostree remounts it
/// writable. Must be called while the process has one thread: existing threads would stay outside.
pub(crate) fn enter_mount_namespace() -> Result<(), NamespaceError> {
    if rustix::process::geteuid().is_root() && boot::is_booted_ostree(Path::new("/")) {
        MountNamespace::enter()?;
    }
    Ok(())
}

/// libostree's state file of the staged deployment. Newer versions of libostree store the lock in it if asked
/// to, as rpm-ostreed does.
const STAGED: &str = "/run/ostree/staged-deployment";

pub(crate) fn is_locked() -> bool {
    let noted = || staged_metadata()?.lookup::<bool>("locked").ok()?;
    Path::new(LOCK).exists() || noted().unwrap_or(false)
}

/// Read libostree's state file of the staged deployment.
fn staged_metadata() -> Option<glib::VariantDict> {
    let bytes = std::fs::read(STAGED).ok()?;
    let staged = glib::Variant::from_data_with_type(bytes, glib::VariantTy::VARDICT);
    Some(glib::VariantDict::new(Some(&staged)))
}

/// Stage a commit, locked. The lock is created first, so that no shutdown can finalize the deployment in
/// between.
pub(crate) fn stage(
    opened: &mut OpenedSysroot,
    request: &DeployRequest,
    boot_id: &BootId,
) -> Result<Deployment, OsError> {
    let sysroot = &opened.sysroot;
    if let Some(staged) = sysroot.staged_deployment() {
        let staged = identify(&staged)?;
        if request.replaces.as_ref() != Some(&staged) {
            return Err(OsError::AlreadyStaged { deployment: staged.to_string() });
        }
    }
    let (merge, origin) = prepare(sysroot, request)?;
    origin.set_string(MARK_GROUP, MARK_KEY, boot_id.as_str());
    let arguments: Vec<&str> = request.kernel_arguments.iter().map(KernelArgument::as_str).collect();
    let overlays = match (&request.replaces, &request.origin) {
        (Some(_), _) => {
            staged_metadata().map(|staged| packages::staged_overlays(&staged)).unwrap_or_default()
        }
        // An overlay of the initramfs belongs to the deployment that is deployed again.
        (None, DeploymentOrigin::Deployment(id)) => packages::initrd_overlays(&find(sysroot, id)?),
        (None, DeploymentOrigin::Image(_) | DeploymentOrigin::MergeDeployment) => {
            packages::initrd_overlays(&merge)
        }
    };
    let overlays: Vec<&str> = overlays.iter().map(String::as_str).collect();
    let options = ostree::SysrootDeployTreeOpts {
        override_kernel_argv: Some(&arguments),
        overlay_initrds: (!overlays.is_empty()).then_some(&overlays),
    };
    lock()?;
    set_staged_ref(sysroot, Some(&request.commit))?;
    let staged = sysroot.stage_tree_with_options(
        Some(&request.stateroot),
        &request.commit,
        Some(&origin),
        Some(&merge),
        &options,
        Cancellable::NONE,
    );
    if let Err(error) = staged {
        remove_lock()?;
        return Err(failure(format!("staging commit {}", request.commit), &error.into()));
    }
    // libostree 2023.7 and newer remove the lock where the deployment replaces another staged one. A shutdown before this line
    // finalizes nothing: there is no pending record yet.
    lock()?;
    let Some(deployment) = sysroot.staged_deployment() else {
        return Err(other("staging a deployment", "libostree reports no staged deployment"));
    };
    keep_for_session(opened, deployment, request)
}

/// Point [`STAGED_REF`] at `commit`, or remove it. The ref keeps the commit in the repository if the staged
/// deployment is lost at power-off: a commit with layered packages has no other ref.
pub(crate) fn set_staged_ref(sysroot: &ostree::Sysroot, commit: Option<&str>) -> Result<(), OsError> {
    let kept = sysroot.repo().set_ref_immediate(None, STAGED_REF, commit, Cancellable::NONE);
    kept.map_err(|error| failure(format!("writing the ref {STAGED_REF}"), &error.into()))
}

fn lock() -> Result<(), OsError> {
    let failed = |error: std::io::Error| failure(format!("creating {LOCK}"), &error.into());
    let directory = Path::new(LOCK).parent().unwrap_or(Path::new("/run"));
    std::fs::create_dir_all(directory).map_err(failed)?;
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o640).open(LOCK).map_err(failed)?;
    Ok(())
}

fn remove_lock() -> Result<(), OsError> {
    match std::fs::remove_file(LOCK) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(failure(format!("removing {LOCK}"), &error.into()))
        }
        _ => Ok(()),
    }
}

/// Remove the lock, so that the staged deployment is finalized at shutdown.
pub(crate) fn unlock(opened: &mut OpenedSysroot, id: &DeploymentId) -> Result<(), OsError> {
    find_staged(opened, id)?;
    remove_lock()?;
    // The deployment is unlocked; only other programs' view of it may be old.
    if let Err(error) = mark_changed(opened) {
        eprintln!("rpm-ostree may show the deployment as locked: {error}");
    }
    Ok(())
}

/// Set the time by which libostree's users, such as rpm-ostreed, notice a change of the sysroot.
fn mark_changed(opened: &OpenedSysroot) -> std::io::Result<()> {
    let root = opened.sysroot.path().path().unwrap_or_default();
    File::open(root.join("ostree/deploy"))?.set_modified(SystemTime::now())
}

/// Discard the staged deployment and its lock.
pub(crate) fn unstage(opened: &mut OpenedSysroot, id: &DeploymentId) -> Result<(), OsError> {
    let staged = find_staged(opened, id)?;
    let mut kept = opened.sysroot.deployments();
    kept.retain(|deployment| !deployment.equal(&staged));
    let options = ostree::SysrootWriteDeploymentsOpts { do_postclean: true };
    opened
        .sysroot
        .write_deployments_with_options(&kept, &options, Cancellable::NONE)
        .map_err(|error| failure(format!("discarding the staged deployment {id}"), &error.into()))?;
    opened.pending = None;
    remove_lock()
}

fn find_staged(opened: &OpenedSysroot, id: &DeploymentId) -> Result<ostree::Deployment, OsError> {
    let staged = opened.sysroot.staged_deployment();
    let staged = staged.filter(|staged| identify(staged).is_ok_and(|found| found == *id));
    staged.ok_or_else(|| OsError::NoSuchDeployment { deployment: format!("{id} (staged)") })
}
