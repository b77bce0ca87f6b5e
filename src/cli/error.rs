//! What a command failed with, and the exit code that says how to go on.

use std::process::ExitCode;

use crate::cluster::introduction::IntroductionError;
use crate::core::values::causes::chain;
use crate::core::values::image::ImageRefError;
use crate::core::values::refusal::RefusalList;
use crate::daemon::DaemonError;
use crate::host::HostError;
use crate::os::OsError;
use crate::transaction::TransactionError;

/// `EX_USAGE`: the command line is wrong.
const USAGE: u8 = 64;
/// `EX_TEMPFAIL`: somebody else is at work; the same call may succeed later.
const TRY_AGAIN: u8 = 75;
/// `EX_CONFIG`: the configuration is malformed or refused.
const CONFIG: u8 = 78;

/// A failed command.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The arguments do not go together.
    #[error("{0}; see `flameholder --help`")]
    Usage(String),
    /// A file that was named cannot be read.
    #[error("reading {file}")]
    Input {
        /// The file.
        file: String,
        /// What the kernel said.
        #[source]
        source: std::io::Error,
    },
    /// A configuration is refused.
    #[error("{file} is refused: {source}")]
    Refused {
        /// The file.
        file: String,
        /// Everything that is wrong with it.
        source: RefusalList,
    },
    /// An image reference on the command line is malformed.
    #[error(transparent)]
    Image(#[from] ImageRefError),
    /// The host was not told who we are to the cluster.
    #[error(transparent)]
    Introduction(#[from] IntroductionError),
    /// The result could not be written.
    #[error("writing the result to standard output")]
    Output(#[source] std::io::Error),
    /// The daemon cannot go on.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// The command was carried out and failed.
    #[error(transparent)]
    Transaction(#[from] TransactionError),
}

impl From<OsError> for CliError {
    fn from(error: OsError) -> Self {
        Self::Transaction(error.into())
    }
}

impl From<HostError> for CliError {
    fn from(error: HostError) -> Self {
        Self::Transaction(error.into())
    }
}

impl CliError {
    /// The error and its causes in one line, outermost first.
    #[must_use]
    pub fn chain(&self) -> String {
        match self {
            Self::Transaction(error) => error.chain(),
            // The refusals are the message already.
            Self::Refused { .. } => self.to_string(),
            _ => chain(self),
        }
    }

    /// See the table in `docs/design.md`.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) | Self::Image(_) => ExitCode::from(USAGE),
            Self::Refused { .. }
            | Self::Transaction(TransactionError::Refused(_) | TransactionError::Settings(_)) => {
                ExitCode::from(CONFIG)
            }
            Self::Transaction(TransactionError::OnProbation { .. }) => ExitCode::from(TRY_AGAIN),
            Self::Transaction(error) if error.is_busy() => ExitCode::from(TRY_AGAIN),
            _ => ExitCode::FAILURE,
        }
    }
}
