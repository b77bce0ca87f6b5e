//! Errors of requests for a document, each with the way out.

use std::path::PathBuf;
use std::time::Duration;

use crate::core::config::settings::server_url::UrlError;
use crate::https::UnvalidatedTls;

/// Failed request for a document.
#[derive(Debug, thiserror::Error)]
pub enum HttpsError {
    /// A file with a CA, certificate, key or token that cannot be used.
    #[error("{} cannot be used: {reason}", path.display())]
    Credential { path: PathBuf, reason: String },
    /// A client certificate without its key, or a key without its certificate.
    #[error(
        "a client certificate and its key belong together: give both `client-certificate` and `client-key`"
    )]
    HalfIdentity,
    /// The CAs of the system are needed, and there is none.
    #[error("the system has no CA to check the server with: name one with `server-ca`")]
    NoSystemCas,
    #[error(transparent)]
    UnvalidatedTls(#[from] UnvalidatedTls),
    /// No connection.
    #[error("{server} cannot be reached: {reason}")]
    Unreachable { server: String, reason: String },
    /// No complete answer in time.
    #[error("{url} did not answer completely within {} seconds", .limit.as_secs())]
    TimedOut { url: String, limit: Duration },
    /// The certificate of the server is refused.
    #[error("the certificate of {server} {fault}")]
    Certificate { server: String, fault: CertificateFault },
    /// The public key of the server is none of the pinned ones.
    #[error(
        "{server} has the public key {found}, which no pin lists; if its key was changed on purpose, add this pin"
    )]
    Unpinned { server: String, found: String },
    /// The answer leads to another server.
    #[error("{url} redirects to {to}; if that is intended, name this address instead")]
    Redirected { url: String, to: String },
    /// The answer leads to an address that cannot be used.
    #[error("{url} redirects to an address that cannot be used")]
    BadRedirect {
        url: String,
        #[source]
        source: UrlError,
    },
    /// The answer's status is not a success.
    #[error("{url} answers with status {status}{}", hint(*status))]
    Status {
        url: String,
        status: u16,
        /// Time after which the server wants to be asked again.
        retry_after: Duration,
    },
    /// A document, or contents, above the limit in bytes.
    #[error("{url} has more than {limit} bytes, the limit of a config")]
    TooLarge { url: String, limit: usize },
    /// An answer that ends early, or is no HTTP.
    #[error("the answer of {url} is incomplete or not HTTP: {reason}")]
    Broken { url: String, reason: String },
}

/// Reason to refuse a server's certificate, with the way out. Follows "the certificate of HOST".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateFault {
    #[error("has expired: renew it, or correct the clock of this host")]
    Expired,
    #[error("is not valid yet: correct the clock of this host, or of the host that made it")]
    NotValidYet,
    /// A certificate without subject alternative names, as config servers of clusters born before 4.10 have.
    #[error(
        "has no subject alternative name, only a common name, which names no server any more: make it again with the address in `subjectAltName` (of a config server, it is in the Secret machine-config-server-tls of openshift-machine-config-operator)"
    )]
    OnlyCommonName,
    #[error("is for {}, not for this address: use one of these names, or a certificate with this one", .0.join(", "))]
    OtherNames(Vec<String>),
    #[error("is from a CA that is not trusted here: name its CA with `server-ca`")]
    UnknownCa,
    #[error("cannot be verified: {0}")]
    Other(String),
}

/// Explain a status; begins with punctuation.
fn hint(status: u16) -> &'static str {
    match status {
        400 => ": it serves no version of Ignition that is understood here",
        401 | 403 => ": it wants other credentials; see `token-file`, `client-certificate` and `client-key`",
        404 => ": it has no such document; check the path",
        429 | 503 => ": it is overloaded",
        500 => "; a config server also answers so for a pool that it does not know",
        _ => "",
    }
}

impl HttpsError {
    /// Time after which the server wants to be asked again; zero unless it named one.
    #[must_use]
    pub fn retry_after(&self) -> Duration {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => Duration::ZERO,
        }
    }

    /// Return true if the same request can succeed later without anybody's doing.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::TimedOut { .. } | Self::Broken { .. } => true,
            Self::Status { status, .. } => matches!(status, 429 | 502..=504),
            _ => false,
        }
    }
}
