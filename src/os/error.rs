//! What can go wrong with a sysroot, by what to do next.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::core::values::image::redact_credentials;
use crate::os::rpm_ostree::daemon::RpmOstreeError;

/// The text of an error that happened in another process, cleared of credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{0}")]
pub struct RedactedCause(String);

impl RedactedCause {
    /// Takes over what a tool or a library said.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(redact_credentials(text.trim()))
    }
}

/// Why a sysroot could not be read or changed. Every message ends with what to do next, where there is something to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum OsError {
    /// Somebody else holds the sysroot's lock. Try again later.
    #[error("{} is locked by another program (rpm-ostree, ostree, bootc, flameholder); try again when it is done", sysroot.display())]
    Busy {
        /// The sysroot.
        sysroot: PathBuf,
    },
    /// There is no OSTree repository.
    #[error("{} is not an OSTree sysroot; expected a directory that holds ostree/repo", path.display())]
    NotASysroot {
        /// What was given as the sysroot.
        path: PathBuf,
    },
    /// The sysroot is the one that runs: a deployment made directly would lose what is written to `/etc` until the reboot.
    #[error("{} is running; it is changed by staging, not as a sysroot at rest", path.display())]
    Running {
        /// The sysroot.
        path: PathBuf,
    },
    /// The sysroot is at rest, and only a running system has something staged.
    #[error("{} is not running, so nothing can be staged in it", path.display())]
    NotRunning {
        /// The sysroot.
        path: PathBuf,
    },
    /// Another deployment is staged already, and would be lost.
    #[error(
        "deployment {deployment} is staged already; reboot into it, or discard it with `ostree admin undeploy 0` or `rpm-ostree cleanup -p`"
    )]
    AlreadyStaged {
        /// What is staged.
        deployment: String,
    },
    /// The sysroot has no such stateroot.
    #[error("no stateroot {stateroot:?}; there are: {}", found.join(", "))]
    NoSuchStateroot {
        /// What was asked for.
        stateroot: String,
        /// What is there.
        found: Vec<String>,
    },
    /// The sysroot has no such deployment (any more). Ask again what is there.
    #[error("no deployment {deployment}; list the deployments again, another program may have removed it")]
    NoSuchDeployment {
        /// What was asked for.
        deployment: String,
    },
    /// libostree would write other kernel arguments than asked for. Nothing was deployed.
    #[error(
        "kernel arguments {asked:?} cannot be kept: a boot entry would hold {kept:?}; change the argument"
    )]
    KernelArguments {
        /// The whole list, as asked.
        asked: Vec<String>,
        /// What a boot entry would hold.
        kept: Vec<String>,
    },
    /// The image could not be fetched or used.
    #[error("pulling {image}: {reason}")]
    Pull {
        /// The image.
        image: String,
        /// What kind of failure it is.
        reason: PullFailure,
        /// What the tools said.
        #[source]
        source: RedactedCause,
    },
    /// A file system is full.
    #[error("{doing}: no space left; remove old deployments or images, or enlarge the file system")]
    NoSpace {
        /// What was being done.
        doing: String,
        /// What libostree said.
        #[source]
        source: RedactedCause,
    },
    /// A file system is mounted read-only.
    #[error("{doing}: the file system is read-only; mount it writable")]
    ReadOnly {
        /// What was being done.
        doing: String,
        /// What libostree said.
        #[source]
        source: RedactedCause,
    },
    /// A program that libostree runs is not installed.
    #[error("{doing}: {tool} is not installed, which libostree needs for it; install it")]
    ToolMissing {
        /// What was being done.
        doing: String,
        /// The package that provides the program.
        tool: String,
        /// What libostree said.
        #[source]
        source: RedactedCause,
    },
    /// The worker is not installed.
    #[error("no flameholder-ostree found (looked for {}); install it there", list(looked_for))]
    WorkerMissing {
        /// Where it was looked for.
        looked_for: Vec<PathBuf>,
    },
    /// The worker could not be started.
    #[error("starting {}; check that it is executable", program.display())]
    WorkerNotStarted {
        /// The worker's executable.
        program: PathBuf,
        /// What the kernel said.
        #[source]
        source: RedactedCause,
    },
    /// The worker ended in the middle of a session. Boot entries are as before, or completely written.
    #[error("flameholder-ostree ended early ({status}); see its last words, then try again")]
    WorkerDied {
        /// How it ended: exit status or signal.
        status: String,
        /// The last lines of its standard error.
        #[source]
        stderr: RedactedCause,
    },
    /// The worker speaks another version of the protocol, or something was asked out of turn.
    #[error("talking to flameholder-ostree: {problem}")]
    Protocol {
        /// What is wrong and what to do.
        problem: String,
    },
    /// The host is of a kind that cannot be served.
    #[error("this host cannot be served: {reason}")]
    Unsupported {
        /// Why, and what to do.
        reason: String,
    },
    /// rpm-ostreed cannot be asked.
    #[error("{0}")]
    RpmOstreed(RedactedCause),
    /// rpm-ostreed does something for somebody else. Try again later.
    #[error("rpm-ostreed is busy; try again when it is done, or cancel that with `rpm-ostree cancel`")]
    RpmOstreedBusy {
        /// What it does, and for whom.
        #[source]
        with: RedactedCause,
    },
    /// Packages cannot be had, or not together.
    #[error(
        "packages cannot be changed; check spec.extensions, spec.kernelType and spec.baseOSExtensionsContainerImage, and the repositories of this host"
    )]
    Packages {
        /// What rpm-ostreed said.
        #[source]
        source: RedactedCause,
    },
    /// This process was told to end.
    #[error("interrupted; nothing was changed, call it again")]
    Cancelled,
    /// Anything else.
    #[error("{doing}")]
    Other {
        /// What was being done.
        doing: String,
        /// What libostree said.
        #[source]
        source: RedactedCause,
    },
}

/// Why an image could not be fetched or used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PullFailure {
    /// The tool that fetches images is not there.
    #[error("skopeo is not installed; install it")]
    SkopeoMissing,
    /// There is no such image.
    #[error("there is no such image; check its name, tag or digest")]
    NotFound,
    /// The registry refuses.
    #[error(
        "the registry denies access; check the pull secret (/var/lib/kubelet/config.json, or /etc/ostree/auth.json where that is there), and the image's name"
    )]
    Denied,
    /// The registry's certificate is not trusted.
    #[error("no trusted TLS connection; check the host's CA certificates, its clock, and registries.conf")]
    Tls,
    /// The registry's name is unknown.
    #[error("the registry's name cannot be resolved; check its spelling and the host's DNS")]
    Dns,
    /// The registry does not answer.
    #[error("the registry cannot be reached; check network and proxy, then try again")]
    Unreachable,
    /// The signature is missing or wrong, or the policy accepts none.
    #[error("the image is not accepted; check its signature and the host's containers/policy.json")]
    SignatureRejected,
    /// The bytes are not those that the manifest names.
    #[error("the image is damaged; push or copy it again")]
    Corrupt,
    /// The image cannot boot this host.
    #[error(
        "the image is not a bootable OS for this host; check that it is an OS image of the right architecture"
    )]
    NotBootable,
    /// Anything else.
    #[error("it failed for a reason unknown here; see the cause")]
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
    /// True where the same request may succeed later without anybody changing anything on this host.
    #[must_use]
    pub fn is_transient(self) -> bool {
        matches!(self, Self::Dns | Self::Unreachable)
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
