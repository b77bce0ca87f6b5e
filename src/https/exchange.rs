//! One request and its answer, on a connection of its own.

use std::time::Duration;

use http::header::{AUTHORIZATION, HOST, USER_AGENT};
use http::{Response, request};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::access_files::AccessFiles;
use super::{HttpsError, tls};
use crate::core::config::settings::server_access::ServerAccess;
use crate::core::config::settings::server_url::ServerUrl;
use crate::core::values::causes::chain;

const CLIENT: &str = concat!("flameholder/", env!("CARGO_PKG_VERSION"));

/// Deadline of a connection.
const CONNECTION: Duration = Duration::from_secs(10);

/// Send a request whose method, path and own headers are set, and return the answer, whatever its status.
pub(super) async fn exchange(
    url: &ServerUrl,
    access: &ServerAccess,
    files: &AccessFiles,
    request: request::Builder,
    body: Bytes,
) -> Result<Response<Incoming>, HttpsError> {
    let stream = connect(url).await?;
    let (stream, public_key) = tls::connect(stream, url, files).await?;
    if !access.pins.is_empty() && !access.pins.contains(&public_key) {
        return Err(HttpsError::Unpinned {
            server: url.authority().to_owned(),
            found: public_key.to_string(),
        });
    }
    let broken = |error: hyper::Error| HttpsError::Broken { url: url.to_string(), reason: chain(&error) };
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    // Ends with the sender and the body of the answer; its error is that of the request.
    tokio::spawn(connection);
    let mut request = request.header(HOST, url.authority()).header(USER_AGENT, CLIENT);
    if let Some(token) = &files.token {
        request = request.header(AUTHORIZATION, token);
    }
    let request = request.body(Full::new(body)).expect("path and headers were checked before");
    sender.send_request(request).await.map_err(broken)
}

async fn connect(url: &ServerUrl) -> Result<TcpStream, HttpsError> {
    let failed = |reason: String| HttpsError::Unreachable { server: url.authority().to_owned(), reason };
    match timeout(CONNECTION, TcpStream::connect((url.host(), url.port()))).await {
        Ok(stream) => stream.map_err(|error| failed(error.to_string())),
        Err(_) => Err(failed(format!("no connection within {} seconds", CONNECTION.as_secs()))),
    }
}

/// Read the body of an answer; `None` if it has more than `limit` bytes.
pub(super) async fn read_body(
    url: &ServerUrl,
    answer: Response<Incoming>,
    limit: usize,
) -> Result<Option<Vec<u8>>, HttpsError> {
    let (mut body, mut bytes) = (answer.into_body(), Vec::new());
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| HttpsError::Broken { url: url.to_string(), reason: chain(&error) })?;
        let Ok(piece) = frame.into_data() else { continue };
        if bytes.len() + piece.len() > limit {
            return Ok(None);
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(Some(bytes))
}
