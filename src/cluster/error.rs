//! Why the API server did not do as it was asked, by what follows from that.

use std::path::PathBuf;
use std::time::Duration;

use crate::core::daemon::lifecycle::{DaemonProblem, ProblemClass};
use crate::core::values::causes::chain;

/// Why not.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// How to reach it cannot be read.
    #[error("the kubeconfig {} cannot be used: {reason}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// It did not answer in time.
    #[error("the API server does not answer within {} seconds", .0.as_secs())]
    TimedOut(Duration),
    /// It cannot be reached, or its answer is none.
    #[error("the API server cannot be reached: {0}")]
    Unreachable(String),
    /// It does not know us, or we may not.
    #[error("the API server refuses: {0}; see the permissions and the kubeconfig of this node")]
    Denied(String),
    /// There is no such thing.
    #[error("the cluster has no {0}")]
    NotFound(String),
    /// Somebody else changed it meanwhile.
    #[error("it was changed meanwhile: {0}")]
    Conflict(String),
    /// It does not remember so old a version.
    #[error("the API server does not remember that version: {0}")]
    Gone(String),
    /// It is not as it has to be.
    #[error("the API server does not take it: {0}")]
    Refused(String),
    /// It has other things to do.
    #[error("the API server has trouble: {0}")]
    ServerError(String),
}

impl From<kube::Error> for ClusterError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => {
                let text = status.message.clone();
                match status.code {
                    401 | 403 => Self::Denied(text),
                    // It says `NAME not found`.
                    404 => Self::NotFound(text.trim_end_matches(" not found").to_owned()),
                    409 => Self::Conflict(text),
                    410 => Self::Gone(text),
                    400 | 413 | 415 | 422 => Self::Refused(text),
                    code => Self::ServerError(format!("{code}: {text}")),
                }
            }
            error => Self::Unreachable(chain(&error)),
        }
    }
}

impl ClusterError {
    /// What it means for an update.
    #[must_use]
    pub fn problem(&self) -> DaemonProblem {
        DaemonProblem { class: ProblemClass::Transient, reason: self.to_string() }
    }

    /// Whether another connection, or another certificate by now, may do better.
    #[must_use]
    pub fn is_about_the_connection(&self) -> bool {
        matches!(self, Self::Denied(_) | Self::TimedOut(_) | Self::Unreachable(_) | Self::Kubeconfig { .. })
    }
}
