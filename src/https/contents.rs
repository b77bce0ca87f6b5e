//! Contents that a config names by URL and hash. The hash decides, and not the server: no credentials are sent, and redirections
//! may lead to other servers.

use std::time::Duration;

use http::header::ACCEPT;
use http::{Request, Response, StatusCode};
use hyper::body::{Bytes, Incoming};
use tokio::time::timeout;

use super::HttpsError;
use super::access_files::AccessFiles;
use super::exchange::{announced_length, exchange, read_body};
use super::fetch::{redirection, retry_after};
use crate::core::config::settings::server_access::ServerAccess;
use crate::core::config::settings::server_url::ServerUrl;

/// Redirections that are followed in a row: servers of releases lead to those of files.
const REDIRECTIONS: usize = 5;

/// Fetch at most `limit` bytes within this time. A server of `https:` is checked with the CAs of the system.
pub async fn fetch_contents(url: &ServerUrl, limit: usize, time: Duration) -> Result<Vec<u8>, HttpsError> {
    within(url, "*/*", limit, time).await
}

/// Fetch the update graph of a Cincinnati server, which answers only those who accept JSON.
pub async fn fetch_graph(url: &ServerUrl, limit: usize, time: Duration) -> Result<Vec<u8>, HttpsError> {
    within(url, "application/json", limit, time).await
}

async fn within(
    url: &ServerUrl,
    accepted: &'static str,
    limit: usize,
    time: Duration,
) -> Result<Vec<u8>, HttpsError> {
    let answer = timeout(time, followed(url, accepted, limit)).await;
    answer.unwrap_or_else(|_| Err(HttpsError::TimedOut { url: url.to_string(), limit: time }))
}

async fn followed(url: &ServerUrl, accepted: &'static str, limit: usize) -> Result<Vec<u8>, HttpsError> {
    let access = ServerAccess::default();
    let files = AccessFiles::load(&access)?;
    let mut url = url.clone();
    for _ in 0..=REDIRECTIONS {
        let answer =
            exchange(&url, &access, &files, Request::get(url.path()).header(ACCEPT, accepted), Bytes::new())
                .await?;
        let Some(location) = redirection(&answer) else { return body(&url, answer, limit).await };
        let next = url.redirected_contents(&location);
        url = next.map_err(|source| HttpsError::BadRedirect { url: url.to_string(), source })?;
    }
    let reason = format!("more than {REDIRECTIONS} redirections in a row");
    Err(HttpsError::Broken { url: url.to_string(), reason })
}

/// Read the body of an answer that is no redirection. A missing end shows by the hash.
async fn body(url: &ServerUrl, answer: Response<Incoming>, limit: usize) -> Result<Vec<u8>, HttpsError> {
    if answer.status() != StatusCode::OK {
        let (status, retry_after) = (answer.status().as_u16(), retry_after(answer.headers()));
        return Err(HttpsError::Status { url: url.to_string(), status, retry_after });
    }
    let too_large = || HttpsError::TooLarge { url: url.to_string(), limit };
    if announced_length(answer.headers()).is_some_and(|length| length > limit as u64) {
        return Err(too_large());
    }
    read_body(url, answer, limit).await?.ok_or_else(too_large)
}
