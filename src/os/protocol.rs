//! What `flameholder` and its worker `flameholder-ostree` say to each other.
//!
//! The worker's standard input and output are a private pipe of JSON lines. It opens with one [`WorkerGreeting`]; then each
//! [`WorkerRequest`] gets any number of [`WorkerReply::Progress`] and one other [`WorkerReply`]. Requests are not pipelined. The first is
//! [`WorkerRequest::Open`]. The end of the worker's input ends the session, whatever is going on: it writes no boot entry
//! that [`WorkerRequest::Finish`] or [`WorkerRequest::SetDefault`] had not asked for, and unlocks nothing that is staged.
//!
//! Both sides are installed together; [`VERSION`] is there to say so plainly when they were not.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::core::values::image::ImageRef;
use crate::os::{DeployRequest, Deployment, DeploymentId, ImportedCommit, OsError, PullProgress};

/// The version of this protocol. Any change of a type here is a new one.
pub const VERSION: u32 = 3;

/// The worker's first line. This type must stay readable by every version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerGreeting {
    /// The worker's [`VERSION`].
    pub protocol: u32,
    /// Whether libostree merges directories that hold devices, sockets or pipes.
    #[serde(default)]
    pub ignores_special_files: bool,
}

/// What a session may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SysrootAccess {
    /// Look only: needs no lock, works on a read-only file system.
    Read,
    /// Change a sysroot that is not running: holds its lock until the session ends.
    Write,
    /// Change the running one, by staging: holds its lock until the session ends.
    Stage,
}

/// What the worker is asked to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkerRequest {
    /// Opens the sysroot at `path`; answered by [`WorkerReply::Done`].
    Open {
        /// The sysroot.
        path: PathBuf,
        /// What the session may do.
        access: SysrootAccess,
    },
    /// Answered by [`WorkerReply::Deployments`].
    Deployments,
    /// Answered by [`WorkerReply::Imported`].
    Import(ImageRef),
    /// The image with this manifest digest, under whatever name it was imported; answered by [`WorkerReply::Imported`] where it
    /// is there, else by [`WorkerReply::Done`].
    Find(String),
    /// The version of a package in a commit; answered by [`WorkerReply::PackageVersion`].
    PackageVersion {
        /// The commit.
        commit: String,
        /// The package's name.
        package: String,
    },
    /// Files of an image that is no operating system; answered by [`WorkerReply::Done`].
    Unpack {
        /// The image.
        image: ImageRef,
        /// The path in the image below which they are.
        within: PathBuf,
        /// The directory that they are put into.
        to: PathBuf,
    },
    /// Answered by [`WorkerReply::Deployed`].
    Deploy(DeployRequest),
    /// Answered by [`WorkerReply::Deployed`].
    Stage(DeployRequest),
    /// Answered by [`WorkerReply::Done`].
    Unlock(DeploymentId),
    /// Answered by [`WorkerReply::Done`].
    Unstage(DeploymentId),
    /// Answered by [`WorkerReply::Done`].
    CleanUp,
    /// Paths and their `st_mode`; answered by [`WorkerReply::Labels`] in the same order.
    Labels(Vec<(String, u32)>),
    /// `/usr/etc` of a commit; answered by [`WorkerReply::EtcCheckedOut`].
    CheckOutEtc(String),
    /// Answered by [`WorkerReply::Done`].
    Finish,
    /// Answered by [`WorkerReply::Done`].
    SetDefault(DeploymentId),
}

impl WorkerRequest {
    /// True for what a session with [`SysrootAccess::Read`] may ask.
    #[must_use]
    pub fn only_reads(&self) -> bool {
        matches!(
            self,
            Self::Open { .. }
                | Self::Deployments
                | Self::Labels(_)
                | Self::Find(_)
                | Self::Unpack { .. }
                | Self::PackageVersion { .. }
        )
    }
}

/// What the worker answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkerReply {
    /// Not an answer yet: an import goes on.
    Progress(PullProgress),
    /// The deployments in boot order.
    Deployments(Vec<Deployment>),
    /// The image is in the repository.
    Imported(ImportedCommit),
    /// The tree is checked out, and `/etc` merged.
    Deployed(Deployment),
    /// One for each path.
    Labels(Vec<Option<String>>),
    /// It lies at `usr/etc` below this directory, until another one is asked for or the session ends.
    EtcCheckedOut(PathBuf),
    /// The version; `None` where the commit does not say.
    PackageVersion(Option<String>),
    /// It is done.
    Done,
    /// The request failed; the session goes on.
    Failed(OsError),
}

impl WorkerReply {
    /// The reply's name, for messages about one that is out of turn.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Progress(_) => "progress",
            Self::Deployments(_) => "deployments",
            Self::Imported(_) => "imported",
            Self::Deployed(_) => "deployed",
            Self::Labels(_) => "labels",
            Self::EtcCheckedOut(_) => "etc-checked-out",
            Self::PackageVersion(_) => "package-version",
            Self::Done => "done",
            Self::Failed(_) => "failed",
        }
    }
}
