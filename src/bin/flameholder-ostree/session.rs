//! One session: an opened sysroot and the requests about it, one after the other.

use std::path::Path;

use flameholder::os::protocol::{Access, Reply, Request};
use flameholder::os::{Cause, OsError};
use ostree_ext::gio::Cancellable;
use ostree_ext::{gio, ostree};

use crate::classify::failure;
use crate::deploy::Pending;
use crate::etc::EtcCheckout;
use crate::wire::{Replies, Wire};
use crate::{deploy, deployments, etc, import, packages, stage, unpack};

/// Answers requests until the client closes the pipe, be it in the middle of one.
pub(crate) async fn serve(wire: Wire) -> anyhow::Result<()> {
    let (mut requests, mut replies) = wire.split();
    let mut opened = None;
    while let Some(request) = requests.next().await? {
        let reply = tokio::select! {
            reply = answer(&mut opened, request, &mut replies) => reply.unwrap_or_else(Reply::Failed),
            closed = requests.closed() => return closed,
        };
        replies.answer(&reply)?;
    }
    Ok(())
}

async fn answer(
    opened: &mut Option<Opened>,
    request: Request,
    replies: &mut Replies,
) -> Result<Reply, OsError> {
    let Some(opened) = opened else {
        let Request::Open { path, access } = request else {
            return Err(out_of_turn("no sysroot is open"));
        };
        *opened = Some(Opened::open(&path, access)?);
        return Ok(Reply::Done);
    };
    if opened.access == Access::Read && !request.only_reads() {
        return Err(out_of_turn("the session was opened for reading only"));
    }
    match request {
        Request::Open { .. } => Err(out_of_turn("a sysroot is open already")),
        Request::Deployments => deployments::list(&opened.sysroot).map(Reply::Deployments),
        Request::Import(image) => {
            let progress = |step| replies.progress(step);
            let imported = import::import(&opened.sysroot.repo(), &image, progress).await;
            imported.map(Reply::Imported)
        }
        Request::Find(digest) => {
            let found = import::find(&opened.sysroot.repo(), &digest)?;
            Ok(found.map_or(Reply::Done, Reply::Imported))
        }
        Request::PackageVersion { commit, package } => {
            packages::version(&opened.sysroot.repo(), &commit, &package).map(Reply::PackageVersion)
        }
        Request::Unpack { image, within, to } => {
            let config = import::proxy_config(&image);
            unpack::unpack(&image, config, &within, &to).await.map(|()| Reply::Done)
        }
        Request::Deploy(request) => deploy::deploy(opened, &request).map(Reply::Deployed),
        Request::Labels(paths) => deploy::labels(opened, &paths).map(Reply::Labels),
        Request::CheckOutEtc(commit) => etc::check_out(opened, &commit).map(Reply::EtcCheckedOut),
        Request::Finish => deploy::finish(opened).map(|()| Reply::Done),
        Request::SetDefault(id) => deploy::set_default(opened, &id).map(|()| Reply::Done),
        Request::Stage(request) => stage::stage(opened, &request).map(Reply::Deployed),
        Request::Unlock(id) => stage::unlock(opened, &id).map(|()| Reply::Done),
        Request::Unstage(id) => stage::unstage(opened, &id).map(|()| Reply::Done),
        Request::CleanUp => deploy::clean_up(opened).map(|()| Reply::Done),
    }
}

/// A sysroot that is loaded, and locked where it is to be changed. The lock ends with the process.
pub(crate) struct Opened {
    pub(crate) sysroot: ostree::Sysroot,
    pub(crate) access: Access,
    /// The deployment that has no boot entry yet.
    pub(crate) pending: Option<Pending>,
    /// What was checked out to be looked at.
    pub(crate) etc: Option<EtcCheckout>,
}

impl Opened {
    fn open(path: &Path, access: Access) -> Result<Self, OsError> {
        if !path.join("ostree/repo").is_dir() {
            return Err(OsError::NotASysroot { path: path.to_owned() });
        }
        let doing = || format!("opening the sysroot {}", path.display());
        let sysroot = ostree::Sysroot::new(Some(&gio::File::for_path(path)));
        if access == Access::Stage {
            // Whatever it has to mount writable it does where nobody else sees it.
            sysroot.set_mount_namespace_in_use();
        }
        if access != Access::Read {
            let locked = sysroot.try_lock().map_err(|error| failure(doing(), &error.into()))?;
            if !locked {
                return Err(OsError::Busy { sysroot: path.to_owned() });
            }
        }
        // Only now: what another program deployed before it gave the lock back is seen.
        sysroot.load(Cancellable::NONE).map_err(|error| failure(doing(), &error.into()))?;
        match (access, sysroot.booted_deployment()) {
            (Access::Write, Some(_)) => return Err(OsError::Running { path: path.to_owned() }),
            (Access::Stage, None) => return Err(OsError::AtRest { path: path.to_owned() }),
            _ => {}
        }
        Ok(Self { sysroot, access, pending: None, etc: None })
    }
}

/// The client asks for something that does not fit what it asked for before.
pub(crate) fn out_of_turn(problem: &str) -> OsError {
    OsError::Protocol { problem: problem.to_owned() }
}

/// An error without a cause below it.
pub(crate) fn other(doing: &str, cause: &str) -> OsError {
    OsError::Other { doing: doing.to_owned(), source: Cause::new(cause) }
}
