//! One request for a document: negotiation of the version of Ignition, redirections, limits of time and size.

use std::time::Duration;

use http::header::{
    ACCEPT, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED, LOCATION, RETRY_AFTER, TRANSFER_ENCODING,
};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use hyper::body::{Bytes, Incoming};
use tokio::time::timeout;

use super::HttpsError;
use super::access_files::AccessFiles;
use super::exchange::{announced_length, exchange, read_body};
use crate::core::config::settings::server_access::ServerAccess;
use crate::core::config::settings::server_url::ServerUrl;
use crate::core::values::limits;

/// Versions of Ignition, the newest first. The config server answers 500 to 3.0. Servers that know nothing of
/// Ignition send their only document.
const EVERY_VERSION: &str = "application/vnd.coreos.ignition+json;version=3.6.0, \
    application/vnd.coreos.ignition+json;version=3.5.0;q=0.9, \
    application/vnd.coreos.ignition+json;version=3.4.0;q=0.8, \
    application/vnd.coreos.ignition+json;version=3.3.0;q=0.7, \
    application/vnd.coreos.ignition+json;version=3.2.0;q=0.6, \
    application/vnd.coreos.ignition+json;version=3.1.0;q=0.5, \
    application/vnd.coreos.ignition+json;version=2.2.0;q=0.4, \
    */*;q=0.1";
/// For servers that refuse any version 3.
const VERSION_2: &str = "application/vnd.coreos.ignition+json;version=2.2.0, */*;q=0.1";
/// Redirections that are followed in a row.
const REDIRECTIONS: usize = 3;
/// Longest wait on demand of the server: a wrong header must not silence the host for a day.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// Request for a document.
#[derive(Debug, Clone)]
pub struct DocumentRequest {
    pub url: ServerUrl,
    pub access: ServerAccess,
    /// Longest time until the document is complete.
    pub limit: Duration,
}

impl DocumentRequest {
    /// Longest time until a document is complete, for all callers but tests.
    pub const LIMIT: Duration = Duration::from_secs(60);
}

/// Version of a document, as the server names it: empty if it does not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DocumentVersion {
    etag: Option<HeaderValue>,
    last_modified: Option<HeaderValue>,
}

impl DocumentVersion {
    fn of(headers: &HeaderMap) -> Self {
        Self { etag: headers.get(ETAG).cloned(), last_modified: headers.get(LAST_MODIFIED).cloned() }
    }

    fn is_known(&self) -> bool {
        self.etag.is_some() || self.last_modified.is_some()
    }
}

/// Answer to a request.
#[derive(Debug)]
pub enum DocumentAnswer {
    /// The document is the one whose version the request had.
    Unchanged,
    Document {
        bytes: Vec<u8>,
        version: DocumentVersion,
    },
}

/// Fetch a document, unless its version is `known`.
pub async fn fetch(request: &DocumentRequest, known: &DocumentVersion) -> Result<DocumentAnswer, HttpsError> {
    let answer = timeout(request.limit, negotiated(request, known)).await;
    answer
        .unwrap_or_else(|_| Err(HttpsError::TimedOut { url: request.url.to_string(), limit: request.limit }))
}

async fn negotiated(
    request: &DocumentRequest,
    known: &DocumentVersion,
) -> Result<DocumentAnswer, HttpsError> {
    let files = AccessFiles::load(&request.access)?;
    match followed(request, &files, known, EVERY_VERSION).await {
        Err(HttpsError::Status { status: 400, .. }) => followed(request, &files, known, VERSION_2).await,
        answer => answer,
    }
}

/// Request the document, and follow redirections on the same server. The token and the certificate are for this server.
async fn followed(
    request: &DocumentRequest,
    files: &AccessFiles,
    known: &DocumentVersion,
    accepted: &'static str,
) -> Result<DocumentAnswer, HttpsError> {
    let mut url = request.url.clone();
    for _ in 0..=REDIRECTIONS {
        let answer = answer_of(&url, &request.access, files, known, accepted).await?;
        let Some(location) = redirection(&answer) else { return document(&url, answer, known).await };
        let next = url.redirected(&location);
        let next = next.map_err(|source| HttpsError::BadRedirect { url: url.to_string(), source })?;
        if !next.is_same_server(&request.url) {
            return Err(HttpsError::Redirected { url: url.to_string(), to: next.to_string() });
        }
        url = next;
    }
    Err(HttpsError::Broken {
        url: url.to_string(),
        reason: format!("more than {REDIRECTIONS} redirections in a row"),
    })
}

pub(super) fn redirection(answer: &Response<Incoming>) -> Option<String> {
    let is_redirection = answer.status().is_redirection() && answer.status() != StatusCode::NOT_MODIFIED;
    let location = answer.headers().get(LOCATION).filter(|_| is_redirection)?;
    Some(String::from_utf8_lossy(location.as_bytes()).into_owned())
}

async fn answer_of(
    url: &ServerUrl,
    access: &ServerAccess,
    files: &AccessFiles,
    known: &DocumentVersion,
    accepted: &'static str,
) -> Result<Response<Incoming>, HttpsError> {
    let mut request = Request::get(url.path()).header(ACCEPT, accepted);
    for (name, value) in [(IF_NONE_MATCH, &known.etag), (IF_MODIFIED_SINCE, &known.last_modified)] {
        if let Some(value) = value {
            request = request.header(name, value);
        }
    }
    exchange(url, access, files, request, Bytes::new()).await
}

/// Read the document of an answer that is no redirection.
async fn document(
    url: &ServerUrl,
    answer: Response<Incoming>,
    known: &DocumentVersion,
) -> Result<DocumentAnswer, HttpsError> {
    match answer.status() {
        StatusCode::OK => {}
        StatusCode::NOT_MODIFIED if known.is_known() => return Ok(DocumentAnswer::Unchanged),
        status => {
            let retry_after = retry_after(answer.headers());
            return Err(HttpsError::Status { url: url.to_string(), status: status.as_u16(), retry_after });
        }
    }
    let too_large = || HttpsError::TooLarge { url: url.to_string(), limit: limits::DOCUMENT_BYTES };
    let version = DocumentVersion::of(answer.headers());
    let announced = announced_length(answer.headers());
    if announced.is_some_and(|length| length > limits::DOCUMENT_BYTES as u64) {
        return Err(too_large());
    }
    let has_known_end = announced.is_some() || answer.headers().contains_key(TRANSFER_ENCODING);
    let bytes = read_body(url, answer, limits::DOCUMENT_BYTES).await?.ok_or_else(too_large)?;
    if !has_known_end {
        // OpenSSL does not tell if the connection was closed or cut off.
        let reason = "it has neither Content-Length nor chunks, so that its end may be missing: have the server send a length".to_owned();
        return Err(HttpsError::Broken { url: url.to_string(), reason });
    }
    Ok(DocumentAnswer::Document { bytes, version })
}

/// Seconds of the header `Retry-After`; zero without it. Its other form, a date, depends on a clock that may be wrong.
pub(super) fn retry_after(headers: &HeaderMap) -> Duration {
    let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    Duration::from_secs(seconds.unwrap_or_default()).min(LONGEST_WAIT)
}
