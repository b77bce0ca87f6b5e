//! Errors of requests to the API server, by their consequence for the caller.

use std::path::PathBuf;
use std::time::Duration;

use kube::client::AuthError;

use crate::cluster::BusyServer;
use crate::cluster::connection::credentials::failure_of;
use crate::core::daemon::lifecycle::{DaemonProblem, ProblemClass};
use crate::core::values::causes::chain;
use crate::https::UnvalidatedTls;

/// Failed request to the API server.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The kubeconfig is missing or malformed.
    #[error("the kubeconfig {} cannot be used: {reason}", path.display())]
    Kubeconfig { path: PathBuf, reason: String },
    /// The file with the token that identifies this host is missing or malformed.
    #[error("the token file {} cannot be used: {reason}", path.display())]
    Token { path: PathBuf, reason: String },
    #[error(transparent)]
    UnvalidatedTls(#[from] UnvalidatedTls),
    /// No answer within this time.
    #[error("the API server did not answer within {} seconds", .0.as_secs())]
    TimedOut(Duration),
    /// Connection failure, or an answer that is not from an API server.
    #[error("the API server cannot be reached: {0}")]
    Unreachable(String),
    /// Status 401 or 403.
    #[error("the API server denies access: {0}; check the kubeconfig and the permissions of this node")]
    Denied(String),
    /// Status 404: no object of this name.
    #[error("the cluster has no {0}")]
    NotFound(String),
    /// Status 409: another client changed the object since it was read.
    #[error("the object was changed by another client: {0}")]
    Conflict(String),
    /// Status 410: the resource version is too old to watch from.
    #[error("the resource version is too old: {0}")]
    Gone(String),
    /// Status 400, 413, 415 or 422: the server rejects the object.
    #[error("the API server rejects the request: {0}")]
    Refused(String),
    /// A status with the header `Retry-After`: 429 or 503.
    #[error(transparent)]
    Busy(#[from] BusyServer),
    /// The pool of this node is not told by its labels, or the pools cannot be read.
    #[error("the MachineConfigPool of this node is unknown: {0}")]
    UnknownPool(String),
    /// The fetched object cannot be kept.
    #[error("no memory for {0}")]
    NoMemory(String),
    /// Any other status, such as 500.
    #[error("the API server reports an error: {0}")]
    ServerError(String),
}

impl From<kube::Error> for ClusterError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => {
                let text = status.message.clone();
                match status.code {
                    401 | 403 => Self::Denied(text),
                    // The server's message is `NAME not found`.
                    404 => Self::NotFound(text.trim_end_matches(" not found").to_owned()),
                    409 => Self::Conflict(text),
                    410 => Self::Gone(text),
                    400 | 413 | 415 | 422 => Self::Refused(text),
                    code => Self::ServerError(format!("{code}: {text}")),
                }
            }
            kube::Error::Service(error) => match error.downcast::<BusyServer>() {
                Ok(busy) => Self::Busy(*busy),
                Err(error) => Self::Unreachable(match error.downcast_ref::<AuthError>() {
                    Some(error) => failure_of(error),
                    None => chain(&kube::Error::Service(error)),
                }),
            },
            kube::Error::Auth(error) => Self::Unreachable(failure_of(&error)),
            // Its text may quote a value, which may be secret.
            kube::Error::SerdeError(error) => Self::ServerError(format!(
                "an answer is not as expected at line {}, column {}",
                error.line(),
                error.column()
            )),
            error => Self::Unreachable(chain(&error)),
        }
    }
}

impl ClusterError {
    /// Convert into a problem of the daemon, always transient.
    #[must_use]
    pub fn problem(&self) -> DaemonProblem {
        DaemonProblem { class: ProblemClass::Transient, reason: self.to_string() }
    }

    /// Time that the server asked to wait before the next request; zero if it did not.
    #[must_use]
    pub fn retry_after(&self) -> Duration {
        match self {
            Self::Busy(busy) => busy.retry_after,
            _ => Duration::ZERO,
        }
    }

    /// Returns true if the server did not answer: it or the connection to it is gone.
    #[must_use]
    pub fn has_no_answer(&self) -> bool {
        matches!(self, Self::TimedOut(_) | Self::Unreachable(_))
    }

    /// Returns true if the server's certificate is not trusted: the CA may have changed. The TLS libraries pass no more
    /// than their text on.
    #[must_use]
    pub fn is_about_a_certificate(&self) -> bool {
        const TEXTS: [&str; 2] = ["invalid peer certificate", "certificate verify failed"];
        matches!(self, Self::Unreachable(reason) if TEXTS.iter().any(|text| reason.contains(text)))
    }

    /// Returns true if a new connection, with the kubeconfig and certificate of now, may succeed.
    #[must_use]
    pub fn is_about_the_connection(&self) -> bool {
        matches!(
            self,
            Self::Denied(_)
                | Self::TimedOut(_)
                | Self::Unreachable(_)
                | Self::Kubeconfig { .. }
                | Self::Token { .. }
        )
    }
}
