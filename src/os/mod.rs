//! The operating system's side: deployments of an OSTree sysroot, behind one port.
//!
//! [`Sysroot`] is the port: a session on an OSTree sysroot. [`worker::WorkerSession`] implements it through
//! `flameholder-ostree`, a short-lived process that alone links libostree; see [`protocol`] for what the two say to
//! each other. [`rpm_ostree::RpmOstreeSession`] implements it where images and packages are rpm-ostreed's, by that session and
//! over D-Bus.
//!
//! In a sysroot that is *not running* (`--sysroot DIR`: image building, installers, tests) a new deployment is made in
//! this order, and boots only after the last step:
//!
//! 1. [`import`](Sysroot::import) brings the image into the sysroot's repository;
//! 2. [`deploy`](Sysroot::deploy) checks a commit out beside the others and merges `/etc` into it at once;
//! 3. the caller writes its files below [`DeploymentId::path`], with [`labels`](Sysroot::labels);
//! 4. [`finish`](Sysroot::finish) writes the boot entries: durable, and atomic for the bootloader.
//!
//! A session that ends earlier leaves the boot entries as they were. The abandoned tree is taken over or
//! removed by the next writer.
//!
//! On the *running* system a deployment is [staged](Sysroot::stage) instead: checked out now, and finalized, its `/etc`
//! merged and its boot entry written, while the system shuts down; unless it is still locked then.

pub mod backend;
mod error;
pub mod finalizer;
pub mod protocol;
pub mod pull_secret;
pub mod rpm_ostree;
pub mod wording;
pub mod worker;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::core::config::layering::{LayeringChange, PackageLayering};
use crate::core::etc_merge::SpecialFiles;
pub use crate::core::values::deployment::DeploymentId;
use crate::core::values::image::ImageRef;
pub use error::{OsError, PullFailure, RedactedCause};

/// A session on an OSTree sysroot.
///
/// One that changes it holds libostree's lock on the sysroot until it is dropped.
pub trait Sysroot {
    /// All deployments, in boot order: the first is what boots next.
    fn deployments(&mut self) -> Result<Vec<Deployment>, OsError>;

    /// Whether packages can be changed here.
    fn layers_packages(&self) -> bool {
        false
    }

    /// Brings what is wanted into the sysroot's repository. An image that is pinned by digest and already there needs no
    /// network. Where packages can be changed, nothing may be staged before it, and what it made may be staged after.
    fn import(
        &mut self,
        wanted: &ImportRequest,
        progress: &mut dyn FnMut(PullProgress),
    ) -> Result<ImportedCommit, OsError>;

    /// Puts the files that an image, no OS image, has below `within` into the directory `to`.
    fn unpack(&mut self, image: &ImageRef, within: &Path, to: &Path) -> Result<(), OsError>;

    /// Checks a commit out as a new deployment and merges `/etc` into it. Writes no boot entry.
    fn deploy(&mut self, request: &DeployRequest) -> Result<Deployment, OsError>;

    /// The SELinux label that the policy of the deployment made by [`deploy`](Self::deploy), or else of the one that runs,
    /// gives to each path: absolute as in the running system (`/etc/passwd`), with its `st_mode` including the file type.
    /// `None` where the deployment has no policy or the policy no label.
    fn labels(&mut self, paths: &[(String, u32)]) -> Result<Vec<Option<String>>, OsError>;

    /// What this libostree's merge does with devices, sockets and pipes.
    fn special_files(&self) -> SpecialFiles;

    /// Checks `/usr/etc` of a commit out to be looked at, where no deployment has it. It lies at `usr/etc` below the
    /// directory that is returned, until another one is asked for or the session ends.
    fn check_out_etc(&mut self, commit: &str) -> Result<PathBuf, OsError>;

    /// Makes the deployment of [`deploy`](Self::deploy) the one that boots next.
    ///
    /// Of its stateroot the previous default and the pinned deployments stay, others are removed;
    /// other stateroots are left alone. Images that no deployment comes from any more leave the repository.
    /// On return all is on disk.
    fn finish(&mut self) -> Result<(), OsError>;

    /// Makes an existing deployment boot next. Nothing else changes.
    fn set_default(&mut self, deployment: &DeploymentId) -> Result<(), OsError>;

    /// Checks a commit out on the running system, to be finalized at shutdown; *locked*, so that it is not. Nothing may
    /// be staged already, but for what [`import`](Self::import) staged. A reboot while it is locked loses it.
    fn stage(&mut self, request: &DeployRequest) -> Result<Deployment, OsError>;

    /// Lets the staged deployment be finalized at shutdown.
    fn unlock(&mut self, staged: &DeploymentId) -> Result<(), OsError>;

    /// Discards the staged deployment.
    fn unstage(&mut self, staged: &DeploymentId) -> Result<(), OsError>;

    /// Removes what no deployment needs any more: trees, kernels, images.
    fn clean_up(&mut self) -> Result<(), OsError>;
}

/// One bootable tree of a sysroot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deployment {
    /// What names it.
    pub id: DeploymentId,
    /// The arguments of its boot entry in their order, without `ostree=`; a quoted argument is one element, quotes included.
    pub kernel_arguments: Vec<String>,
    /// The image that its origin names. `None` where it follows something else, or an image in a notation unknown here.
    pub image: Option<ImageRef>,
    /// The digest of the image's manifest, as recorded at its import.
    pub manifest_digest: Option<String>,
    /// What its origin says of packages.
    pub layering: PackageLayering,
    /// The version that the image or the commit says it is.
    pub version: Option<String>,
    /// Kept by the administrator's wish, whatever else is deployed.
    pub pinned: bool,
    /// Waits to be finalized at shutdown.
    pub staged: bool,
    /// Staged, and would not be finalized at shutdown.
    pub locked: bool,
    /// Runs now.
    pub booted: bool,
}

/// What to deploy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeployRequest {
    /// The stateroot to deploy into.
    pub stateroot: String,
    /// The commit to check out.
    pub commit: String,
    /// What the new deployment says it comes from.
    pub origin: DeploymentOrigin,
    /// The deployment whose `/etc` is merged. Always named: libostree's own choice is the pending one,
    /// whose configuration may have been discarded.
    pub merge: DeploymentId,
    /// All kernel arguments, in order, without `ostree=`.
    pub kernel_arguments: Vec<String>,
    /// What its origin is to say of packages; `None` where that is said by the origin that it gets.
    pub layering: Option<PackageLayering>,
    /// The staged deployment whose place it takes. Any other that is staged is in the way.
    pub replaces: Option<DeploymentId>,
}

/// What is to be brought in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportRequest {
    /// The image; `None` where what runs stays beneath its packages.
    pub image: Option<ImageRef>,
    /// What becomes of packages. Nothing can be asked for where packages cannot be changed.
    pub packages: LayeringChange,
}

impl ImportRequest {
    /// Whether a deployment has it: the image by digest or by name, and the packages.
    #[must_use]
    pub fn is_in(&self, deployment: &Deployment) -> bool {
        let has_image = self.image.as_ref().is_none_or(|image| match image.digest() {
            Some(digest) => deployment.manifest_digest.as_deref() == Some(digest),
            None => deployment.image.as_ref() == Some(image),
        });
        has_image && self.packages.missing_in(&deployment.layering).is_empty()
    }
}

impl From<ImageRef> for ImportRequest {
    fn from(image: ImageRef) -> Self {
        Self { image: Some(image), packages: LayeringChange::default() }
    }
}

/// What a deployment says it comes from, which is what later updates follow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeploymentOrigin {
    /// A container image.
    Image(ImageRef),
    /// The same as the merge deployment: its commit is deployed again with other files.
    MergeDeployment,
    /// The same as another deployment, which is deployed again.
    Deployment(DeploymentId),
}

/// An image in the sysroot's repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedCommit {
    /// The commit to deploy. Two imports of one image can differ here: compare digests.
    pub commit: String,
    /// The digest of the manifest, `sha256:…`; `None` where packages were put onto what came as no image.
    pub manifest_digest: Option<String>,
    /// The version that the image says it is.
    pub version: Option<String>,
    /// How many layers had to be fetched.
    pub layers_fetched: usize,
    /// How many bytes these have, as they are stored in the registry.
    pub bytes_fetched: u64,
    /// What rpm-ostreed staged, locked, to make it.
    pub staged: Option<DeploymentId>,
    /// How many of its transactions that took.
    pub transactions: u32,
}

/// How far an import is. Sums are over the layers that are not there yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullProgress {
    /// What is going on.
    pub phase: PullPhase,
    /// How many layers are complete.
    pub layers_done: usize,
    /// How many layers are to be fetched.
    pub layers: usize,
    /// How many bytes have arrived.
    pub bytes_done: u64,
    /// How many bytes are to be fetched.
    pub bytes: u64,
}

/// The parts of an import, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PullPhase {
    /// Asks what the image consists of.
    Manifest,
    /// Fetches and unpacks layers.
    Layers,
    /// Writes the commit that unites the layers.
    Merge,
}
