//! One request and its answer, on a connection of its own.

use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_LENGTH, HOST, USER_AGENT};
use http::{HeaderMap, Response, request};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
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

/// Stream to a server, protected or not.
trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// Send a request whose method, path and own headers are set, and return the answer, whatever its status.
pub(super) async fn exchange(
    url: &ServerUrl,
    access: &ServerAccess,
    files: &AccessFiles,
    request: request::Builder,
    body: Bytes,
) -> Result<Response<Incoming>, HttpsError> {
    let stream: Box<dyn ByteStream> = match connect(url).await? {
        stream if url.is_protected() => Box::new(protected(stream, url, access, files).await?),
        stream => Box::new(stream),
    };
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

/// Protect the stream by TLS, and check the server's certificate and public key.
async fn protected(
    stream: TcpStream,
    url: &ServerUrl,
    access: &ServerAccess,
    files: &AccessFiles,
) -> Result<tls::TlsStream, HttpsError> {
    let (stream, public_key) = tls::connect(stream, url, files).await?;
    if !access.pins.is_empty() && !access.pins.contains(&public_key) {
        let (server, found) = (url.authority().to_owned(), public_key.to_string());
        return Err(HttpsError::Unpinned { server, found });
    }
    Ok(stream)
}

async fn connect(url: &ServerUrl) -> Result<TcpStream, HttpsError> {
    let failed = |reason: String| HttpsError::Unreachable { server: url.authority().to_owned(), reason };
    match timeout(CONNECTION, TcpStream::connect((url.host(), url.port()))).await {
        Ok(stream) => stream.map_err(|error| failed(error.to_string())),
        Err(_) => Err(failed(format!("no connection within {} seconds", CONNECTION.as_secs()))),
    }
}

/// Return the length of the body that an answer announces.
pub(super) fn announced_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok())
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
