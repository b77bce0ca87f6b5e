//! Deployments of an OSTree sysroot: stage, unlock, finalize, deploy and roll back, behind one port.
//!
//! [`Sysroot`] is the port: a session on an OSTree sysroot. [`worker::WorkerSession`] implements it with
//! `flameholder-ostree`, a short-lived process that alone links libostree; [`protocol`] defines the messages
//! between the two. [`rpm_ostree::RpmOstreeSession`] implements it on hosts where rpm-ostreed manages images
//! and packages: over D-Bus, with a worker session for the rest.
//!
//! In a sysroot that is *not running* (`--sysroot DIR`: image building, installers, tests) a new deployment
//! is made in this order, and does not boot before the last step:
//!
//! 1. [`import`](Sysroot::import) brings the image into the sysroot's repository;
//! 2. [`deploy`](Sysroot::deploy) checks a commit out beside the others and merges `/etc` into it at once;
//! 3. the caller writes its files below [`DeploymentId::path`], with [`labels`](Sysroot::labels);
//! 4. [`finish`](Sysroot::finish) writes the boot entries: durable, and atomic for the bootloader.
//!
//! A session that ends earlier leaves the boot entries unchanged. The next writer reuses or removes the
//! abandoned tree.
//!
//! On the *running* system a deployment is [staged](Sysroot::stage) instead: checked out now; finalized at
//! shutdown, when libostree merges `/etc` and writes the boot entry. A staged deployment that is still locked
//! at shutdown is not finalized.

pub mod backend;
mod error;
pub mod error_text;
pub mod finalize_staged;
pub mod protocol;
pub mod pull_secret;
pub mod rpm_ostree;
pub mod signature_policy;
pub mod sysroot_lock;
pub mod worker;

use std::path::{Path, PathBuf};

pub use error::{OsError, PullFailure, RedactedCause};
use serde::{Deserialize, Serialize};

use crate::core::config::layering::{LayeringChange, PackageLayering};
use crate::core::etc_merge::SpecialFiles;
use crate::core::image_policy::SignatureVerdict;
use crate::core::plan::FetchSize;
pub use crate::core::values::deployment::DeploymentId;
use crate::core::values::identifiers::BootId;
use crate::core::values::image::ImageRef;
use crate::core::values::kernel_arguments::KernelArguments;
use crate::core::values::paths::GENERATION_ARGUMENT;

/// A session on an OSTree sysroot.
///
/// A session that changes the sysroot holds libostree's lock on it until it is dropped.
pub trait Sysroot {
    /// List all deployments in boot order: the first one boots next.
    fn deployments(&mut self) -> Result<Vec<Deployment>, OsError>;

    /// Return true if this session can layer, replace or remove packages.
    fn layers_packages(&self) -> bool {
        false
    }

    /// Pull the requested image and packages into the sysroot's repository. An image that is pinned by digest
    /// and already imported needs no network, unless its reference demands a signature. A session that layers packages requires that nothing is staged
    /// before the call, and may leave its result staged ([`ImportedCommit::staged`]).
    fn import(
        &mut self,
        wanted: &ImportRequest,
        progress: &mut dyn FnMut(PullProgress),
    ) -> Result<ImportedCommit, OsError>;

    /// Ask for the layers of an OS image that the repository lacks, without fetching any. An image that is pinned by digest
    /// and imported needs no network, unless its reference demands a signature.
    fn measure(&mut self, image: &ImageRef) -> Result<FetchSize, OsError>;

    /// Copy the files below `within` in an image that is not an OS image (an extensions container) into the
    /// directory `to`.
    fn unpack(&mut self, image: &ImageRef, within: &Path, to: &Path) -> Result<(), OsError>;

    /// Check a commit out as a new deployment and merge `/etc` into it. Writes no boot entry.
    fn deploy(&mut self, request: &DeployRequest) -> Result<Deployment, OsError>;

    /// Look up the SELinux label of each path in the policy of the deployment made by
    /// [`deploy`](Self::deploy), or else of the booted deployment. A path is absolute as in the running
    /// system (`/etc/passwd`) and comes with its `st_mode` including the file type. `None` if the deployment
    /// has no policy or the policy no label.
    fn labels(&mut self, paths: &[(String, u32)]) -> Result<Vec<Option<String>>, OsError>;

    /// Treatment of devices, sockets and pipes by the `/etc` merge of this libostree version.
    fn special_files(&self) -> SpecialFiles;

    /// Return true if libostree removes the kernels of deployments that are about to go before it copies a new
    /// one to a full `/boot`.
    fn prunes_boot_early(&self) -> bool;

    /// Check out `/usr/etc` of a commit that no deployment has, for reading. The files are at `usr/etc` below
    /// the returned directory until the next call or the end of the session.
    fn check_out_etc(&mut self, commit: &str) -> Result<PathBuf, OsError>;

    /// Write the boot entries that make the deployment of [`deploy`](Self::deploy) the default.
    ///
    /// In its stateroot the previous default and the pinned deployments are kept and all others removed;
    /// other stateroots are left alone. Images that no deployment uses any more are removed from the
    /// repository. On return everything is durable.
    fn finish(&mut self) -> Result<(), OsError>;

    /// Make an existing deployment the default for the next boot. Nothing else changes.
    fn set_default(&mut self, deployment: &DeploymentId) -> Result<(), OsError>;

    /// Pin a deployment, which keeps it from being removed, or take its pin off (`ostree admin pin`).
    fn set_pinned(&mut self, deployment: &DeploymentId, pinned: bool) -> Result<(), OsError>;

    /// Stage a commit on the running system: check it out now, for finalization at shutdown. The deployment
    /// is *locked*, which prevents its finalization; a reboot discards it. Nothing may be staged already,
    /// except the result of [`import`](Self::import). The origin names the boot, `boot_id`.
    fn stage(&mut self, request: &DeployRequest, boot_id: &BootId) -> Result<Deployment, OsError>;

    /// Unlock the staged deployment: libostree finalizes it at shutdown.
    fn unlock(&mut self, staged: &DeploymentId) -> Result<(), OsError>;

    /// Discard the staged deployment.
    fn unstage(&mut self, staged: &DeploymentId) -> Result<(), OsError>;

    /// Remove trees, kernels and images that no deployment uses any more.
    fn clean_up(&mut self) -> Result<(), OsError>;
}

/// A bootable tree of a sysroot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deployment {
    pub id: DeploymentId,
    /// Arguments of its boot entry in order, without `ostree=`; a quoted argument is one element, quotes
    /// included.
    pub kernel_arguments: KernelArguments,
    /// Image that its origin names. `None` if the origin names a commit or branch, or an image in an unknown
    /// notation.
    pub image: Option<ImageRef>,
    /// Digest of the image's manifest, as recorded at its import.
    pub manifest_digest: Option<String>,
    /// Package changes that its origin lists.
    pub layering: PackageLayering,
    /// True if rpm-ostree made its commit on this host (`rpmostree.clientlayer`): from layered packages, and also from local
    /// or replaced packages or an initramfs of its own, which `layering` does not list.
    pub is_client_layer: bool,
    /// Version in the metadata of the image or commit.
    pub version: Option<String>,
    /// True if libostree must not remove it until it is unpinned (`ostree admin pin`).
    pub pinned: bool,
    /// True if libostree finalizes it at shutdown, or would once it is unlocked.
    pub staged: bool,
    /// True if it is staged and must be unlocked before libostree finalizes it.
    pub locked: bool,
    /// Boot in which this agent staged it, by its origin; `None` if it is not staged, or another program staged it. The
    /// kernel argument says less: other programs copy arguments, and origins, of deployments of earlier boots.
    pub staged_in: Option<BootId>,
    pub booted: bool,
}

impl Deployment {
    /// Return true if the deployment has other packages than its image, which only rpm-ostreed can carry over to another one.
    #[must_use]
    pub fn is_layered(&self) -> bool {
        self.is_client_layer || !self.layering.is_empty()
    }

    /// Return the generation ID in its boot entry; `None` where this agent did not deploy it.
    #[must_use]
    pub fn generation(&self) -> Option<&str> {
        self.kernel_arguments.value(GENERATION_ARGUMENT)
    }
}

/// Parameters of a new deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeployRequest {
    pub stateroot: String,
    pub commit: String,
    pub origin: DeploymentOrigin,
    /// Deployment whose `/etc` is merged. Always explicit: libostree would choose the pending deployment,
    /// whose configuration may have been discarded.
    pub merge: DeploymentId,
    /// All kernel arguments, in order, without `ostree=`.
    pub kernel_arguments: KernelArguments,
    /// Package changes to write into its origin; `None` keeps those of the origin chosen by `origin`.
    pub layering: Option<PackageLayering>,
    /// Staged deployment that the new one replaces. Any other staged deployment makes the request fail.
    pub replaces: Option<DeploymentId>,
}

/// Image and package changes to import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportRequest {
    /// Image to pull; `None` keeps the booted base commit beneath the packages.
    pub image: Option<ImageRef>,
    /// Must be empty for a session that does not layer packages.
    pub packages: LayeringChange,
}

impl ImportRequest {
    /// Return true if a deployment has the image (compared by digest, or else by name) and the packages.
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

/// Source that a deployment's origin file names. Later updates follow it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeploymentOrigin {
    Image(ImageRef),
    /// Origin of the merge deployment: its commit is deployed again with other files.
    MergeDeployment,
    /// Origin of another deployment, which is deployed again.
    Deployment(DeploymentId),
}

/// Imported image in the sysroot's repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedCommit {
    /// Commit to deploy. Two imports of one image can have different commits: compare digests.
    pub commit: String,
    /// `sha256:…`; `None` if packages were layered on a base that was not pulled as an image.
    pub manifest_digest: Option<String>,
    /// Version in the image's metadata.
    pub version: Option<String>,
    /// Verdict on its signature; `None` if it was not pulled: the repository had it.
    pub signature: Option<SignatureVerdict>,
    /// Number of layers that had to be fetched.
    pub layers_fetched: usize,
    /// Size of those layers as stored in the registry.
    pub bytes_fetched: u64,
    /// Locked deployment that rpm-ostreed staged to produce this commit.
    pub staged: Option<DeploymentId>,
    /// Number of rpm-ostreed transactions that the import took.
    pub transactions: u32,
}

/// Progress of an import. Totals count only the layers that are missing locally.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullProgress {
    pub phase: PullPhase,
    pub layers_done: usize,
    pub layers: usize,
    pub bytes_done: u64,
    pub bytes: u64,
}

/// Phases of an import, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PullPhase {
    /// Read the image's manifest.
    Manifest,
    /// Fetch and unpack layers.
    Layers,
    /// Write the commit that unites the layers.
    Merge,
}
