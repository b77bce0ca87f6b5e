//! Session of the worker: opens a sysroot and answers requests about it, one after the other.

use std::path::Path;

use flameholder::core::config::artifact::{ArtifactFile, PulledArtifact};
use flameholder::core::values::image::ImageRef;
use flameholder::host::file_locks;
use flameholder::os::protocol::{SysrootAccess, WorkerReply, WorkerRequest};
use flameholder::os::{OsError, RedactedCause};
use ostree_ext::gio::Cancellable;
use ostree_ext::{gio, ostree};

use crate::deploy::NewDeployment;
use crate::error_classes::failure;
use crate::etc::EtcCheckout;
use crate::plain_images::{artifact, selected_files, unpack};
use crate::signature_policy::SignaturePolicy;
use crate::wire::{ReplyWriter, WorkerPipe};
use crate::{deploy, deployments, etc, import, packages, stage};

/// libostree's lock file, relative to the sysroot.
const LOCK: &str = "ostree/lock";

/// Answer requests until the client closes the pipe, which also interrupts a running request.
pub(crate) async fn serve(wire: WorkerPipe) -> anyhow::Result<()> {
    let (mut requests, mut replies) = wire.split();
    let mut opened = None;
    while let Some(request) = requests.next().await? {
        let reply = tokio::select! {
            reply = answer(&mut opened, request, &mut replies) => reply.unwrap_or_else(WorkerReply::Failed),
            closed = requests.closed() => return closed,
        };
        replies.answer(&reply)?;
    }
    Ok(())
}

async fn answer(
    opened: &mut Option<OpenedSysroot>,
    request: WorkerRequest,
    replies: &mut ReplyWriter,
) -> Result<WorkerReply, OsError> {
    match &request {
        WorkerRequest::PullArtifact { image, known } => {
            return pull_artifact(image, known.as_deref(), replies).await;
        }
        WorkerRequest::ImageFiles { image, paths } => return send_image_files(image, paths, replies).await,
        _ => {}
    }
    let Some(opened) = opened else {
        let WorkerRequest::Open { path, access } = request else {
            return Err(protocol_error("no sysroot is open"));
        };
        *opened = Some(OpenedSysroot::open(&path, access)?);
        return Ok(WorkerReply::Done);
    };
    if opened.access == SysrootAccess::Read && !request.only_reads() {
        return Err(protocol_error("the session was opened for reading only"));
    }
    answer_about(opened, request, replies).await
}

/// Answer a request about the open sysroot.
async fn answer_about(
    opened: &mut OpenedSysroot,
    request: WorkerRequest,
    replies: &mut ReplyWriter,
) -> Result<WorkerReply, OsError> {
    match request {
        WorkerRequest::Open { .. }
        | WorkerRequest::PullArtifact { .. }
        | WorkerRequest::ImageFiles { .. } => Err(protocol_error("a sysroot is open already")),
        WorkerRequest::Deployments => deployments::list(&opened.sysroot).map(WorkerReply::Deployments),
        WorkerRequest::Import(image) => {
            let progress = |step| replies.progress(step);
            let imported = import::import(&opened.sysroot.repo(), &mut opened.policy, &image, progress).await;
            imported.map(WorkerReply::Imported)
        }
        WorkerRequest::Measure(image) => {
            let size = import::measure(&opened.sysroot.repo(), &mut opened.policy, &image).await?;
            Ok(WorkerReply::Measured(size))
        }
        WorkerRequest::Find(digest) => {
            let found = import::find(&opened.sysroot.repo(), &digest)?;
            Ok(found.map_or(WorkerReply::Done, WorkerReply::Imported))
        }
        WorkerRequest::RequirePolicy(image) => {
            opened.policy.require(&image).await?;
            Ok(WorkerReply::Signature(opened.policy.verdict(&image).await))
        }
        WorkerRequest::PackageVersion { commit, package } => {
            packages::version(&opened.sysroot.repo(), &commit, &package).map(WorkerReply::PackageVersion)
        }
        WorkerRequest::Unpack { image, within, to } => {
            let config = opened.policy.configure(&image).await?;
            unpack::unpack(&image, config, &within, &to).await.map(|()| WorkerReply::Done)
        }
        WorkerRequest::Deploy(request) => deploy::deploy(opened, &request).map(WorkerReply::Deployed),
        WorkerRequest::Labels(paths) => deploy::selinux_labels(opened, &paths).map(WorkerReply::Labels),
        WorkerRequest::CheckOutEtc(commit) => etc::check_out(opened, &commit).map(WorkerReply::EtcCheckedOut),
        WorkerRequest::Finish => deploy::finish(opened).map(|()| WorkerReply::Done),
        WorkerRequest::SetDefault(id) => deploy::set_default(opened, &id).map(|()| WorkerReply::Done),
        WorkerRequest::SetPinned { deployment, pinned } => {
            deploy::set_pinned(opened, &deployment, pinned).map(|()| WorkerReply::Done)
        }
        WorkerRequest::Stage { request, boot_id } => {
            stage::stage(opened, &request, &boot_id).map(WorkerReply::Deployed)
        }
        WorkerRequest::Unlock(id) => stage::unlock(opened, &id).map(|()| WorkerReply::Done),
        WorkerRequest::Unstage(id) => stage::unstage(opened, &id).map(|()| WorkerReply::Done),
        WorkerRequest::CleanUp => deploy::clean_up(opened).map(|()| WorkerReply::Done),
    }
}

/// Pull an artifact, and send its files once all are verified.
async fn pull_artifact(
    image: &ImageRef,
    known: Option<&str>,
    replies: &mut ReplyWriter,
) -> Result<WorkerReply, OsError> {
    let Some(PulledArtifact { digest, files }) = artifact::pull(image, known).await? else {
        return Ok(WorkerReply::Done);
    };
    send_files(files.into_files(), replies);
    Ok(WorkerReply::Artifact(digest))
}

/// Read files of an image, and send them.
async fn send_image_files(
    image: &ImageRef,
    paths: &[String],
    replies: &mut ReplyWriter,
) -> Result<WorkerReply, OsError> {
    let config = SignaturePolicy::from_environment()?.configure_for_files(image).await?;
    send_files(selected_files::read(image, config, paths).await?, replies);
    Ok(WorkerReply::Done)
}

fn send_files(files: impl IntoIterator<Item = ArtifactFile>, replies: &mut ReplyWriter) {
    for file in files {
        // A client that is gone is noticed at standard input.
        let _ = replies.answer(&WorkerReply::ArtifactFile(file));
    }
}

/// Loaded sysroot, locked unless the session only reads. The lock is released when the process ends.
pub(crate) struct OpenedSysroot {
    pub(crate) sysroot: ostree::Sysroot,
    pub(crate) access: SysrootAccess,
    /// Deployment of this session that has no boot entry yet.
    pub(crate) pending: Option<NewDeployment>,
    /// Checkout of `/usr/etc` for a merge preview.
    pub(crate) etc: Option<EtcCheckout>,
    /// Verification of the images to pull.
    policy: SignaturePolicy,
}

impl OpenedSysroot {
    fn open(path: &Path, access: SysrootAccess) -> Result<Self, OsError> {
        if !path.join("ostree/repo").is_dir() {
            return Err(OsError::NotASysroot { path: path.to_owned() });
        }
        let doing = || format!("opening the sysroot {}", path.display());
        let sysroot = ostree::Sysroot::new(Some(&gio::File::for_path(path)));
        if access == SysrootAccess::Stage {
            // libostree may remount `/sysroot` writable: the process has a mount namespace of its own.
            sysroot.set_mount_namespace_in_use();
        }
        if access != SysrootAccess::Read {
            let locked = sysroot.try_lock().map_err(|error| failure(doing(), &error.into()))?;
            if !locked {
                let holder = file_locks::holder(&path.join(LOCK)).map(|holder| holder.to_string());
                return Err(OsError::Busy { sysroot: path.to_owned(), holder });
            }
        }
        // Loaded after locking, so that deployments of the previous holder of the lock are seen.
        sysroot.load(Cancellable::NONE).map_err(|error| failure(doing(), &error.into()))?;
        match (access, sysroot.booted_deployment()) {
            (SysrootAccess::Write, Some(_)) => return Err(OsError::Running { path: path.to_owned() }),
            (SysrootAccess::Stage, None) => return Err(OsError::NotRunning { path: path.to_owned() }),
            _ => {}
        }
        Ok(Self { sysroot, access, pending: None, etc: None, policy: SignaturePolicy::from_environment()? })
    }
}

/// Create the error for a request that does not fit the state of the session.
pub(crate) fn protocol_error(problem: &str) -> OsError {
    OsError::Protocol { problem: problem.to_owned() }
}

/// Create an error from a text instead of an underlying error.
pub(crate) fn other(doing: &str, cause: &str) -> OsError {
    OsError::Other { doing: doing.to_owned(), source: RedactedCause::new(cause) }
}
