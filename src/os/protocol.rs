//! Messages between `flameholder` and its worker `flameholder-ostree`.
//!
//! JSON lines over the worker's standard input and output. The worker first sends one [`WorkerGreeting`];
//! then it answers each [`WorkerRequest`] with any number of [`WorkerReply::Progress`] and one final
//! [`WorkerReply`]. Requests are not pipelined. The first request is [`WorkerRequest::Open`], but for
//! [`WorkerRequest::PullArtifact`] and [`WorkerRequest::ImageFiles`], which need no sysroot. End of input
//! ends the session at any point: the worker then writes no boot entry that [`WorkerRequest::Finish`] or
//! [`WorkerRequest::SetDefault`] had not requested, and unlocks no staged deployment.
//!
//! Both programs are installed together; [`VERSION`] detects when they are not.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::core::config::artifact::ArtifactFile;
use crate::core::image_policy::SignatureVerdict;
use crate::core::plan::FetchSize;
use crate::core::values::identifiers::BootId;
use crate::core::values::image::ImageRef;
use crate::os::{DeployRequest, Deployment, DeploymentId, ImportedCommit, OsError, PullProgress};

/// Version of this protocol. Any change of a type in this file needs a new one.
pub const VERSION: u32 = 9;

/// First line that the worker sends. Every version must be able to read this type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerGreeting {
    pub protocol: u32,
    /// True if libostree merges an `/etc` that holds devices, sockets or pipes.
    #[serde(default)]
    pub ignores_special_files: bool,
    /// True if libostree makes room on `/boot` before it copies a kernel there.
    #[serde(default)]
    pub prunes_boot_early: bool,
    /// Version of libostree at run time, such as `2024.10`; empty if the worker is too old to tell.
    #[serde(default)]
    pub libostree: String,
}

/// Access rights of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SysrootAccess {
    /// Read only: needs no lock and works on a read-only file system.
    Read,
    /// Change a sysroot that is not running; holds its lock until the session ends.
    Write,
    /// Change the running sysroot by staging; holds its lock until the session ends.
    Stage,
}

/// Request to the worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkerRequest {
    /// Open the sysroot at `path`. Answered by [`WorkerReply::Done`].
    Open { path: PathBuf, access: SysrootAccess },
    /// Answered by [`WorkerReply::Deployments`].
    Deployments,
    /// Answered by [`WorkerReply::Imported`].
    Import(ImageRef),
    /// Ask for the layers of an image that the repository lacks; fetch none. Answered by [`WorkerReply::Measured`].
    Measure(ImageRef),
    /// Find the image with this manifest digest, imported under any name. Answered by
    /// [`WorkerReply::Imported`], or by [`WorkerReply::Done`] if the repository does not have it.
    Find(String),
    /// Fail unless the host verifies the signature that the reference or the settings demand, if they demand one. Answered
    /// by [`WorkerReply::Signature`].
    RequirePolicy(ImageRef),
    /// Read the version of a package in a commit. Answered by [`WorkerReply::PackageVersion`].
    PackageVersion { commit: String, package: String },
    /// Extract files of an image that is not an OS image. Answered by [`WorkerReply::Done`].
    Unpack {
        image: ImageRef,
        /// Directory in the image whose content is extracted.
        within: PathBuf,
        /// Directory on the host that receives the files.
        to: PathBuf,
    },
    /// Pull an artifact of configs, unless its manifest has the digest `known`. Answered by a
    /// [`WorkerReply::ArtifactFile`] for each file and by [`WorkerReply::Artifact`], or by [`WorkerReply::Done`] if the digest
    /// is the known one.
    PullArtifact { image: ImageRef, known: Option<String> },
    /// Read files of an image that is not an OS image, by their paths below its root. Answered by a
    /// [`WorkerReply::ArtifactFile`] for each that it has, and by [`WorkerReply::Done`].
    ImageFiles { image: ImageRef, paths: Vec<String> },
    /// Answered by [`WorkerReply::Deployed`].
    Deploy(DeployRequest),
    /// Answered by [`WorkerReply::Deployed`].
    Stage {
        request: DeployRequest,
        /// ID of this boot, which the origin will name.
        boot_id: BootId,
    },
    /// Answered by [`WorkerReply::Done`].
    Unlock(DeploymentId),
    /// Answered by [`WorkerReply::Done`].
    Unstage(DeploymentId),
    /// Answered by [`WorkerReply::Done`].
    CleanUp,
    /// Look up the SELinux labels of paths with their `st_mode`. Answered by [`WorkerReply::Labels`] in the
    /// same order.
    Labels(Vec<(String, u32)>),
    /// Check out `/usr/etc` of a commit. Answered by [`WorkerReply::EtcCheckedOut`].
    CheckOutEtc(String),
    /// Answered by [`WorkerReply::Done`].
    Finish,
    /// Answered by [`WorkerReply::Done`].
    SetDefault(DeploymentId),
    /// Pin a deployment, or take its pin off. Answered by [`WorkerReply::Done`].
    SetPinned { deployment: DeploymentId, pinned: bool },
}

impl WorkerRequest {
    /// Return true if a session with [`SysrootAccess::Read`] may send this request.
    #[must_use]
    pub fn only_reads(&self) -> bool {
        matches!(
            self,
            Self::Open { .. }
                | Self::Deployments
                | Self::Labels(_)
                | Self::Find(_)
                | Self::Measure(_)
                | Self::RequirePolicy(_)
                | Self::Unpack { .. }
                | Self::PackageVersion { .. }
        )
    }
}

/// Reply of the worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkerReply {
    /// Intermediate: an import is in progress.
    Progress(PullProgress),
    /// Intermediate: a file of an artifact or image.
    ArtifactFile(ArtifactFile),
    /// All files of the artifact are sent, which has this digest.
    Artifact(String),
    /// In boot order.
    Deployments(Vec<Deployment>),
    /// The image is in the repository.
    Imported(ImportedCommit),
    /// Layers that an import would fetch.
    Measured(FetchSize),
    /// The tree is checked out, and `/etc` merged unless the deployment is staged.
    Deployed(Deployment),
    /// One label for each requested path, in the same order.
    Labels(Vec<Option<String>>),
    /// Directory whose `usr/etc` holds the files, until the next checkout or the end of the session.
    EtcCheckedOut(PathBuf),
    /// `None` if the commit has no version for the package.
    PackageVersion(Option<String>),
    /// Verdict on a pull of the image; `None` if skopeo has no policy that it can use.
    Signature(Option<SignatureVerdict>),
    /// The request succeeded and has no result.
    Done,
    /// The request failed; the session continues.
    Failed(OsError),
}

impl WorkerReply {
    /// Name of the reply, for error messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Progress(_) => "progress",
            Self::ArtifactFile(_) => "artifact-file",
            Self::Artifact(_) => "artifact",
            Self::Deployments(_) => "deployments",
            Self::Imported(_) => "imported",
            Self::Measured(_) => "measured",
            Self::Deployed(_) => "deployed",
            Self::Labels(_) => "labels",
            Self::EtcCheckedOut(_) => "etc-checked-out",
            Self::PackageVersion(_) => "package-version",
            Self::Signature(_) => "signature",
            Self::Done => "done",
            Self::Failed(_) => "failed",
        }
    }
}
