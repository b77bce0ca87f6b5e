//! HTTPS server of documents, which answers like a config server, and as unkindly as a test asks.

mod certificates;
mod fleet_lock;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

pub use certificates::{Authority, ServerCertificate};
pub use fleet_lock::FleetLock;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;

use crate::tls_terminator::server_configuration;

/// Reaction of the server to a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ServerAnswer {
    /// The document, in the version that the config server would choose.
    #[default]
    Document,
    /// Fewer bytes than the length that was announced.
    Truncated,
    /// Fewer bytes, without a length, and the end of the connection without that of TLS.
    CutOff,
    /// Bytes without end.
    Endless,
    /// A length above every limit.
    TooLong,
    /// The beginning of the document, and nothing more.
    Stalled,
    /// A status, with the header `Retry-After` if there are seconds.
    Status(u16, Option<u64>),
    /// A redirection.
    Redirect(String),
    /// No HTTP.
    Noise,
    /// The end of the connection before TLS.
    Closed,
    /// The end of the connection instead of an answer, once the request took effect.
    Lost,
}

/// State of a server, which tests change while it runs.
#[derive(Default)]
pub struct ServerState {
    pub answer: ServerAnswer,
    /// Answers for certain paths, before the other one.
    pub answers: BTreeMap<String, ServerAnswer>,
    pub document: Vec<u8>,
    /// Documents for certain paths, without a query, before the other one.
    pub documents: BTreeMap<String, Vec<u8>>,
    /// Name of the document's version, sent as `ETag` and compared with `If-None-Match`.
    pub etag: Option<String>,
    /// Versions of Ignition that the server knows; others are refused with 400, and 3.0 with 500.
    pub versions: Vec<&'static str>,
    /// Token without which requests are refused with 401.
    pub token: Option<String>,
    /// Lock of a fleet, in place of documents.
    pub lock: Option<FleetLock>,
    /// Heads of the requests so far, in lower case.
    pub requests: Vec<String>,
}

/// Running server.
pub struct HttpsServer {
    address: SocketAddr,
    state: Arc<Mutex<ServerState>>,
    _runtime: tokio::runtime::Runtime,
}

impl HttpsServer {
    /// Start a server that serves `document` to every client.
    pub fn start(authority: &Authority, kind: ServerCertificate, document: &str) -> Self {
        Self::start_with(authority, kind, document, false)
    }

    /// Start a server that demands a client certificate of the CA.
    pub fn start_for_certified_clients(authority: &Authority, document: &str) -> Self {
        Self::start_with(authority, ServerCertificate::Valid, document, true)
    }

    fn start_with(
        authority: &Authority,
        kind: ServerCertificate,
        document: &str,
        demands_certificate: bool,
    ) -> Self {
        let state = ServerState {
            document: document.as_bytes().to_vec(),
            versions: vec!["3.5", "3.4", "3.3", "3.2", "3.1", "2.2"],
            ..ServerState::default()
        };
        let state = Arc::new(Mutex::new(state));
        let acceptor = TlsAcceptor::from(Arc::new(configuration(authority, kind, demands_certificate)));
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = state.clone();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, acceptor.clone(), shared.clone()));
            }
        });
        Self { address, state, _runtime: runtime }
    }

    /// Address of a document.
    pub fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.address)
    }

    /// Change the state, or read it.
    pub fn with<T>(&self, act: impl FnOnce(&mut ServerState) -> T) -> T {
        act(&mut self.state.lock().unwrap())
    }

    /// Wait for this number of requests.
    pub fn wait_for_requests(&self, number: usize) {
        let end = std::time::Instant::now() + crate::output_lines::LONGEST_WAIT;
        while self.with(|state| state.requests.len()) < number {
            assert!(
                std::time::Instant::now() < end,
                "{} of {number} requests",
                self.with(|state| state.requests.len())
            );
            std::thread::yield_now();
        }
    }
}

fn configuration(authority: &Authority, kind: ServerCertificate, demands_certificate: bool) -> ServerConfig {
    let (certificate, key) = authority.server(kind);
    let key = PrivateKeyDer::try_from(key).unwrap();
    let clients = demands_certificate.then(|| authority.ca());
    server_configuration(CertificateDer::from(certificate), key, clients.as_deref())
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, state: Arc<Mutex<ServerState>>) {
    if state.lock().unwrap().answer == ServerAnswer::Closed {
        return;
    }
    let Ok(mut stream) = acceptor.accept(stream).await else { return };
    let Some(head) = read_head(&mut stream).await else { return };
    let Some(body) = read_body(&mut stream, &head).await else { return };
    let (answer, reply) = {
        let mut state = state.lock().unwrap();
        state.requests.push(head.to_ascii_lowercase());
        let path = head.split(' ').nth(1).unwrap_or_default();
        let answer = state.answers.get(path).unwrap_or(&state.answer).clone();
        let takes_effect = [ServerAnswer::Document, ServerAnswer::Lost].contains(&answer);
        let locked = state.lock.as_mut().filter(|_| takes_effect).map(|lock| lock.answer(&head, &body));
        let reply = match (locked, &answer) {
            (Some((status, body)), ServerAnswer::Document) => format!(
                "HTTP/1.1 {status} Status\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .into_bytes(),
            _ => reply(&state, &answer, &head),
        };
        (answer, reply)
    };
    // The client may refuse to read on.
    drop(stream.write_all(&reply).await);
    match answer {
        ServerAnswer::Endless => while stream.write_all(&[b' '; 1 << 12]).await.is_ok() {},
        ServerAnswer::Stalled => {
            drop(stream.flush().await);
            std::future::pending::<()>().await;
        }
        ServerAnswer::CutOff => {
            drop(stream.flush().await);
            // Without the end of TLS.
            drop(stream.get_mut().0.shutdown().await);
        }
        _ => drop(stream.shutdown().await),
    }
}

async fn read_head(stream: &mut TlsStream<TcpStream>) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    String::from_utf8(head).ok()
}

/// Read the body of a request, if its head announces one.
async fn read_body(stream: &mut TlsStream<TcpStream>, head: &str) -> Option<Vec<u8>> {
    let lower = head.to_ascii_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await.ok()?;
    Some(body)
}

/// Return the document that the request asks for.
fn asked<'s>(state: &'s ServerState, head: &str) -> &'s [u8] {
    let target = head.split(' ').nth(1).unwrap_or_default();
    let path = target.split('?').next().unwrap_or_default();
    state.documents.get(path).unwrap_or(&state.document)
}

/// Return the bytes to send first.
fn reply(state: &ServerState, answer: &ServerAnswer, head: &str) -> Vec<u8> {
    let document = asked(state, head);
    let length = document.len();
    let half = document.get(..length / 2).unwrap_or_default();
    let status = |status: u16, more: &str| {
        format!("HTTP/1.1 {status} Status\r\n{more}Content-Length: 0\r\n\r\n").into_bytes()
    };
    match answer {
        ServerAnswer::Closed | ServerAnswer::Lost => Vec::new(),
        ServerAnswer::Noise => b"SSH-2.0-OpenSSH_9.9\r\n".to_vec(),
        ServerAnswer::Status(code, None) => status(*code, ""),
        ServerAnswer::Status(code, Some(seconds)) => status(*code, &format!("Retry-After: {seconds}\r\n")),
        ServerAnswer::Redirect(to) => status(301, &format!("Location: {to}\r\n")),
        ServerAnswer::Endless | ServerAnswer::CutOff => {
            [b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", half].concat()
        }
        ServerAnswer::TooLong => b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n".to_vec(),
        ServerAnswer::Truncated | ServerAnswer::Stalled => {
            [format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").as_bytes(), half].concat()
        }
        ServerAnswer::Document => versioned(state, head, &status),
    }
}

/// Return the document, unless the request has no token, knows its version or cannot read it.
fn versioned(state: &ServerState, head: &str, status: &dyn Fn(u16, &str) -> Vec<u8>) -> Vec<u8> {
    let header = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
    };
    let expected = state.token.as_ref().map(|token| format!("Bearer {token}"));
    if expected.is_some() && header("authorization") != expected {
        return status(401, "");
    }
    match chosen_version(&header("accept").unwrap_or_default()).as_deref() {
        Some("3.0") => return status(500, ""),
        // Newer minor versions than the server knows get its newest.
        Some(version)
            if version.starts_with("3.") && state.versions.iter().any(|known| known.starts_with("3.")) => {}
        Some(version) if !state.versions.contains(&version) => return status(400, ""),
        _ => {}
    }
    let etag = state.etag.as_ref().map(|etag| format!("\"{etag}\""));
    if etag.is_some() && header("if-none-match") == etag {
        return status(304, "");
    }
    let etag = etag.map(|etag| format!("ETag: {etag}\r\n")).unwrap_or_default();
    let document = asked(state, head);
    let head = format!("HTTP/1.1 200 OK\r\n{etag}Content-Length: {}\r\n\r\n", document.len());
    [head.as_bytes(), document].concat()
}

/// Return major and minor number of the version that the config server would choose: that of the first entry for
/// Ignition by `q`.
fn chosen_version(accept: &str) -> Option<String> {
    let quality = |entry: &str| {
        let q = entry.split(';').find_map(|part| part.trim().strip_prefix("q=")?.parse::<f64>().ok());
        q.unwrap_or(1.0)
    };
    let mut entries: Vec<&str> = accept.split(',').map(str::trim).collect();
    entries.sort_by(|one, other| quality(other).total_cmp(&quality(one)));
    let mut versions = entries.iter().filter(|entry| entry.contains("/vnd.coreos.ignition+json"));
    let version =
        versions.find_map(|entry| entry.split(';').find_map(|part| part.trim().strip_prefix("version=")))?;
    Some(version.split('.').take(2).collect::<Vec<_>>().join("."))
}
