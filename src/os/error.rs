//! Errors of reading or changing a sysroot, split by remedy.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::core::values::foreign_text::harmless_line;
use crate::core::values::image::redact_credentials;
use crate::core::values::kernel_arguments::KernelArguments;
use crate::os::rpm_ostree::daemon::RpmOstreeError;

/// Error text of another process, with credentials redacted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{0}")]
pub struct RedactedCause(String);

impl RedactedCause {
    /// Redact the message of a tool or library.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(harmless_line(&redact_credentials(text.trim())).into_owned())
    }
}

/// Error of reading or changing a sysroot. A message ends with the remedy if there is one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum OsError {
    /// Another program holds the sysroot's lock. Retry later.
    #[error(
        "{} is locked by {}; try again when it is done",
        sysroot.display(),
        holder.as_deref().unwrap_or("another program (rpm-ostree, ostree, bootc, flameholder)")
    )]
    Busy {
        sysroot: PathBuf,
        /// Program and process ID; `None` where they cannot be found.
        holder: Option<String>,
    },
    /// The directory has no OSTree repository.
    #[error("{} is not an OSTree sysroot; expected a directory that holds ostree/repo", path.display())]
    NotASysroot {
        /// Directory given as the sysroot.
        path: PathBuf,
    },
    /// The sysroot belongs to the booted system. Deploying directly would lose changes to `/etc` made until
    /// the reboot.
    #[error("{} is the running sysroot; omit --sysroot to stage the change on the running host", path.display())]
    Running { path: PathBuf },
    /// The sysroot is not the running one: only a running system can have a staged deployment.
    #[error("{} is not running, so nothing can be staged in it", path.display())]
    NotRunning { path: PathBuf },
    /// A deployment is staged already and would be lost.
    #[error(
        "deployment {deployment} is staged already by another program; reboot into it, or discard it with `flameholder unstage --force`"
    )]
    AlreadyStaged { deployment: String },
    #[error("no stateroot {stateroot:?}; existing stateroots: {}", found.join(", "))]
    NoSuchStateroot {
        stateroot: String,
        /// Stateroots of the sysroot.
        found: Vec<String>,
    },
    /// The deployment does not exist, or no longer. List the deployments again.
    #[error("no deployment {deployment}; list the deployments again, another program may have removed it")]
    NoSuchDeployment { deployment: String },
    /// libostree would write other kernel arguments than requested. Nothing was deployed.
    #[error(
        "kernel arguments `{asked}` cannot be kept: a boot entry would hold `{kept}`; change the argument"
    )]
    KernelArguments {
        /// All requested arguments.
        asked: KernelArguments,
        /// Arguments that the boot entry would hold.
        kept: KernelArguments,
    },
    /// The image could not be pulled or deployed.
    #[error("pulling {image}: {reason}")]
    Pull {
        image: String,
        reason: PullFailure,
        /// Message of skopeo, libostree or ostree-ext.
        #[source]
        source: RedactedCause,
    },
    /// An artifact of configs that is no usable one, whenever it is pulled.
    #[error("{artifact} is refused; correct the artifact, and push it again")]
    ArtifactRefused {
        artifact: String,
        /// Digest of its manifest; `None` before it was read.
        digest: Option<String>,
        /// The fault.
        #[source]
        source: RedactedCause,
    },
    #[error("{doing}: no space left; remove old deployments or images, or enlarge the file system")]
    NoSpace {
        /// Operation that failed.
        doing: String,
        /// Message of libostree.
        #[source]
        source: RedactedCause,
    },
    #[error("{doing}: the file system is read-only; mount it writable")]
    ReadOnly {
        /// Operation that failed.
        doing: String,
        /// Message of libostree.
        #[source]
        source: RedactedCause,
    },
    /// A program that libostree runs is not installed.
    #[error("{doing}: {tool} is not installed, which libostree needs for it; install it")]
    ToolMissing {
        /// Operation that failed.
        doing: String,
        /// Package that provides the program.
        tool: String,
        /// Message of libostree.
        #[source]
        source: RedactedCause,
    },
    /// The executable `flameholder-ostree` is not installed.
    #[error(
        "no flameholder-ostree found (looked for {}); install it at one of these paths",
        list(looked_for)
    )]
    WorkerMissing {
        /// Paths that were searched.
        looked_for: Vec<PathBuf>,
    },
    #[error("starting {}; check that it is executable", program.display())]
    WorkerNotStarted {
        program: PathBuf,
        /// Error of `execve`.
        #[source]
        source: RedactedCause,
    },
    /// The worker ended in the middle of a session. Boot entries are unchanged or completely written, never
    /// partial.
    #[error("flameholder-ostree ended early ({status}); try again; its last messages follow")]
    WorkerDied {
        /// Exit status or signal.
        status: String,
        /// Last lines of its standard error.
        #[source]
        stderr: RedactedCause,
    },
    /// The worker has another protocol version, or a request came out of order.
    #[error("talking to flameholder-ostree: {problem}")]
    Protocol {
        /// Problem and remedy.
        problem: String,
    },
    /// Flameholder cannot update this kind of host.
    #[error("this host cannot be served: {reason}")]
    Unsupported {
        /// Reason and remedy.
        reason: String,
    },
    /// rpm-ostreed could not be called.
    #[error("{0}")]
    RpmOstreed(RedactedCause),
    /// rpm-ostreed runs another transaction. Retry later.
    #[error("rpm-ostreed is busy; try again when it is done, or cancel that with `rpm-ostree cancel`")]
    RpmOstreedBusy {
        /// That transaction and its client.
        #[source]
        with: RedactedCause,
    },
    /// The requested packages are not available or conflict.
    #[error(
        "packages cannot be changed; check spec.extensions, spec.kernelType and spec.baseOSExtensionsContainerImage, and the repositories of this host"
    )]
    Packages {
        /// Message of rpm-ostreed.
        #[source]
        source: RedactedCause,
    },
    /// rpm-ostreed staged a deployment, checked it, and does not accept it. The deployment and its image are removed.
    #[error(
        "rpm-ostreed rejects {what} after it was deployed; build another image, or see `journalctl -u rpm-ostreed.service`; `flameholder retry` tries it again"
    )]
    Rejected {
        /// Image or packages.
        what: String,
        /// Digest of the image's manifest; `None` where packages were layered onto the booted one.
        digest: Option<String>,
        /// Message of rpm-ostreed.
        #[source]
        source: RedactedCause,
    },
    /// This process received a termination signal.
    #[error("interrupted; nothing was changed, run the command again")]
    Cancelled,
    #[error("{doing}")]
    Other {
        /// Operation that failed.
        doing: String,
        /// Message of libostree.
        #[source]
        source: RedactedCause,
    },
}

impl OsError {
    /// Return true if another program holds the sysroot or runs an operation, so that a later retry may
    /// succeed.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::RpmOstreedBusy { .. })
    }

    /// Return true if a retry may succeed without a change to this host or its config.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Pull { reason, .. } => reason.is_transient(),
            error => error.is_busy(),
        }
    }
}

/// Reason why an image could not be pulled or deployed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PullFailure {
    /// skopeo, which fetches images, is not installed.
    #[error("skopeo is not installed; install it")]
    SkopeoMissing,
    /// The registry has no such image.
    #[error("no such image; check its name, tag or digest")]
    NotFound,
    /// The registry denies access.
    #[error(
        "the registry denies access; check the pull secret (/etc/ostree/auth.json if it exists, else /var/lib/kubelet/config.json) and the image's name"
    )]
    Denied,
    /// The registry's certificate is not trusted.
    #[error("no trusted TLS connection; check the host's CA certificates, its clock, and registries.conf")]
    Tls,
    /// The registry's name cannot be resolved.
    #[error("the registry's name cannot be resolved; check its spelling and the host's DNS")]
    Dns,
    /// The registry does not answer.
    #[error("the registry cannot be reached; check network and proxy, then try again")]
    Unreachable,
    /// The registry stopped sending.
    #[error("the registry stopped sending; check network and proxy, then try again")]
    Stalled,
    /// The signature is missing or wrong, or the policy accepts none.
    #[error("the image is not accepted; check its signature and the host's containers/policy.json")]
    SignatureRejected,
    /// The policy demands no signature of the image, and the settings do.
    #[error(
        "the setting `image.signature` requires a signature, and no rule of the host's containers/policy.json demands one of this image; add a rule for its repository"
    )]
    SignatureNotDemanded,
    /// skopeo pulls images that the host's policy rejects.
    #[error(
        "the installed skopeo does not enforce containers/policy.json, so that no signature is verified; install skopeo 1.14 or later, or copy the image with `skopeo copy`, which enforces it in every version, and name the copy"
    )]
    PolicyNotEnforced,
    /// The test whether skopeo enforces the host's policy failed.
    #[error("skopeo cannot be shown to enforce containers/policy.json; see the cause")]
    PolicyNotProven,
    /// The content does not match the digests in the manifest.
    #[error("the image is damaged; push or copy it again")]
    Corrupt,
    /// The image cannot boot this host.
    #[error(
        "the image is not a bootable OS for this host; check that it is an OS image of the right architecture"
    )]
    NotBootable,
    /// The cause has an unknown wording.
    #[error("unrecognized failure; see the cause")]
    Other,
}

impl From<RpmOstreeError> for OsError {
    fn from(error: RpmOstreeError) -> Self {
        match error {
            RpmOstreeError::Busy(with) => Self::RpmOstreedBusy { with },
            error => Self::RpmOstreed(RedactedCause::new(&error.to_string())),
        }
    }
}

impl PullFailure {
    /// Return true if the same request may succeed later without a change on this host.
    #[must_use]
    pub fn is_transient(self) -> bool {
        matches!(self, Self::Dns | Self::Unreachable | Self::Stalled)
    }
}

fn list(paths: &[PathBuf]) -> String {
    let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    paths.join(", ")
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn an_error_names_the_cause_once_and_no_secret() {
        let error = OsError::Pull {
            image: "ostree-unverified-registry:h/x".into(),
            reason: PullFailure::Denied,
            source: RedactedCause::new("Get https://u:secret@h/v2/: unauthorized\n"),
        };
        assert!(!error.to_string().contains("unauthorized"), "{error}");
        let cause = error.source().unwrap().to_string();
        assert_eq!(cause, "Get https://[redacted]@h/v2/: unauthorized");
    }

    #[test]
    fn an_error_crosses_the_pipe_unchanged() {
        let error =
            OsError::WorkerDied { status: "signal: 9 (SIGKILL)".into(), stderr: RedactedCause::new("a\nb") };
        let text = serde_json::to_string(&error).unwrap();
        assert_eq!(serde_json::from_str::<OsError>(&text).unwrap(), error);
    }
}
