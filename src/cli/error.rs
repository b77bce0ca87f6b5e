//! Errors of commands and their exit codes: 1 failed, 64 wrong usage, 75 try again, 78 bad configuration.

use crate::cluster::ClusterError;
use crate::cluster::introduction::IntroductionError;
use crate::core::config::artifact::ArtifactRefError;
use crate::core::config::received::document_set::DocumentSetError;
use crate::core::fleet::SilentNodes;
use crate::core::state::installation::image_agent::{AgentVersionError, IMAGE_COMMAND};
use crate::core::values::causes::chain;
use crate::core::values::identifiers::ConfigName;
use crate::core::values::image::ImageRefError;
use crate::core::values::refusal::{Refusal, RefusalList};
use crate::daemon::DaemonError;
use crate::host::HostError;
use crate::https::HttpsError;
use crate::os::OsError;
use crate::source::contents_fetcher::FetchError;
use crate::source::directory::DirectoryError;
use crate::transaction::TransactionError;
use crate::transaction::plan::error::PlanError;
use crate::transaction::state::error::StateError;
use crate::transaction::update::error::UpdateError;

/// Any other failure.
const FAILED: u8 = 1;
/// `EX_USAGE`: the command line is wrong.
const USAGE: u8 = 64;
/// `EX_TEMPFAIL`: the sysroot or the host lock is busy; the same call may succeed later.
pub(super) const TRY_AGAIN: u8 = 75;
/// `EX_CONFIG`: the configuration is malformed or refused.
const CONFIG: u8 = 78;

/// A failed command.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// Arguments that contradict each other or do not fit the host.
    #[error("{0}; see `flameholder COMMAND --help`")]
    Usage(String),
    /// A reboot under a reboot policy, for which a command gets no grant.
    #[error(
        "this host has a reboot policy (see flameholder.toml(5)), which grants no reboot to a command: without --reboot the deployment is staged and locked, and the daemon reboots once it has a grant; with --override-policy this command reboots at once"
    )]
    NeedsGrant,
    /// A daemon would undo the change of the command.
    #[error(
        "the daemon of this host follows {origin}, which desires {desired}: change it there; with --override-source this command goes on, and the daemon may apply {desired} again"
    )]
    FollowsSource {
        /// Source of the daemon: `kube`, `dir:PATH`, a URL or `oci://…`.
        origin: String,
        desired: ConfigName,
    },
    /// The running host is read and changed by root alone.
    #[error("the running host can be read and changed by root only: run the command as root")]
    NotRoot,
    /// `status` by another user than root, before a status was published.
    #[error("no status was published in this boot yet; run the command as root")]
    NoStatus,
    /// `unstage` without `--force`, and the staged deployment is not the agent's.
    #[error(
        "the staged deployment {deployment} is another program's; `flameholder unstage --force` discards it"
    )]
    ForeignStaged { deployment: String },
    /// An unreadable input file.
    #[error("reading {file}")]
    Input {
        file: String,
        #[source]
        source: std::io::Error,
    },
    /// A config that does not parse or fails validation.
    #[error("{}", source.explained_in(file))]
    Refused {
        file: String,
        /// Every problem of the file, each with its field.
        source: RefusalList,
    },
    /// A malformed image reference on the command line.
    #[error(transparent)]
    Image(#[from] ImageRefError),
    /// A malformed reference to an artifact on the command line.
    #[error(transparent)]
    ArtifactRef(#[from] ArtifactRefError),
    /// Documents of an artifact that are not valid, or cannot be merged.
    #[error(transparent)]
    Artifact(#[from] DocumentSetError),
    /// `introduce` could not copy the token to the host.
    #[error(transparent)]
    Introduction(#[from] IntroductionError),
    /// The OS image has an agent that should run instead, and cannot be started.
    #[error("starting {IMAGE_COMMAND}, the agent of the OS image")]
    ImageAgent(#[source] std::io::Error),
    /// The versions of this agent and of the OS image's cannot be compared.
    #[error(transparent)]
    AgentVersion(#[from] AgentVersionError),
    /// Standard output is closed or full.
    #[error("writing the result to standard output")]
    Output(#[source] std::io::Error),
    /// The desired config cannot be fetched from its server.
    #[error(transparent)]
    Https(#[from] HttpsError),
    /// Configs of a directory that cannot be read or merged.
    #[error(transparent)]
    Directory(DirectoryError),
    /// Contents that the desired config names by URL cannot be fetched.
    #[error(transparent)]
    Contents(#[from] FetchError),
    /// Nodes whose configs are not known.
    #[error(transparent)]
    SilentNodes(#[from] SilentNodes),
    /// A request to the cluster of a fleet failed.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    #[error(transparent)]
    Transaction(#[from] TransactionError),
}

impl From<OsError> for CliError {
    fn from(error: OsError) -> Self {
        Self::Transaction(error.into())
    }
}

impl From<DirectoryError> for CliError {
    fn from(error: DirectoryError) -> Self {
        match error {
            DirectoryError::Contents(error) => Self::Contents(error),
            error => Self::Directory(error),
        }
    }
}

impl From<HostError> for CliError {
    fn from(error: HostError) -> Self {
        Self::Transaction(error.into())
    }
}

impl CliError {
    /// Join the error and its causes in one line, outermost first.
    #[must_use]
    pub fn chain(&self) -> String {
        match self {
            Self::Transaction(error) => error.chain(),
            // Its message already holds its source, the refusals.
            Self::Refused { .. } => self.to_string(),
            _ => chain(self),
        }
    }

    /// Return the problems of a refused document; empty for other errors.
    #[must_use]
    pub fn refusals(&self) -> &[Refusal] {
        match self {
            Self::Refused { source: list, .. }
            | Self::Transaction(TransactionError::Plan(PlanError::Refused(list))) => list.as_slice(),
            _ => &[],
        }
    }

    /// Map the error to an exit code of the table in `docs/usage/troubleshooting.md`.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Image(_) | Self::ArtifactRef(_) => USAGE,
            Self::Refused { .. }
            | Self::Contents(FetchError::Refused { .. })
            | Self::Artifact(_)
            | Self::Directory(DirectoryError::Refused { .. } | DirectoryError::Empty { .. })
            | Self::Transaction(
                TransactionError::Os(OsError::ArtifactRefused { .. })
                | TransactionError::Plan(PlanError::Refused(_))
                | TransactionError::State(StateError::Settings(_)),
            ) => CONFIG,
            Self::FollowsSource { .. }
            | Self::Transaction(TransactionError::Update(UpdateError::Unconfirmed { .. })) => TRY_AGAIN,
            Self::Https(error) | Self::Contents(FetchError::Fetch { source: error, .. })
                if error.is_transient() =>
            {
                TRY_AGAIN
            }
            Self::Transaction(TransactionError::Os(error)) if error.is_transient() => TRY_AGAIN,
            Self::Transaction(error) if error.is_busy() => TRY_AGAIN,
            Self::Daemon(DaemonError::Lock(error)) if error.is_busy() => TRY_AGAIN,
            _ => FAILED,
        }
    }
}
