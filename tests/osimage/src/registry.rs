//! The few answers of a container registry that a pull needs, over plain HTTP on the loopback device.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes that a limited connection sends at once.
const PORTION: usize = 64 * 1024;

/// Answer to a request for a missing blob or manifest, as in the distribution specification of OCI.
const MANIFEST_UNKNOWN: &[u8] = br#"{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "not found"}]}"#;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// Manner in which the registry answers.
#[derive(Debug, Clone)]
pub enum RegistryAnswers {
    /// With the images of this OCI layout.
    Layout(PathBuf),
    /// With one status and this message.
    Status(&'static str, &'static str),
    /// With the images of this OCI layout, until it stops in the middle of a blob, after this number of complete ones,
    /// and keeps the connection open.
    Stalling(PathBuf, usize),
    /// With the images of this OCI layout; closes the connection in the middle of each layer.
    Truncating(PathBuf),
    /// With the images of this OCI layout; begins to send layers when so many of them are asked for at the same time.
    Gathering(PathBuf, usize),
    /// With the images of this OCI layout; after the first answer to a request for a tag, the tag names this manifest.
    Moving(PathBuf, String),
    /// With the images of this OCI layout, at the speed of this link.
    Distant(PathBuf, LinkSpeed),
}

/// Speed of a connection to a distant registry.
#[derive(Debug, Clone, Copy)]
pub struct LinkSpeed {
    /// Time before the first byte of a blob.
    pub delay: Duration,
    /// Bytes per second of each connection.
    pub rate: u32,
}

/// A registry that is gone when this is dropped.
#[derive(Debug)]
pub struct ImageRegistry {
    address: SocketAddr,
    shared: Arc<RegistryState>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct RegistryState {
    answers: RegistryAnswers,
    seen: Mutex<SeenRequests>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SeenRequests {
    closing: bool,
    /// Digests of the blobs that were asked for.
    blobs: Vec<String>,
    /// Number of requests for a manifest.
    manifests: usize,
    /// Number of those by a tag.
    tags: usize,
    layers: usize,
    /// Connections that are kept open without an end.
    stalled: Vec<TcpStream>,
}

impl ImageRegistry {
    /// Start on a free port.
    ///
    /// # Errors
    /// There is none.
    pub fn start(answers: RegistryAnswers) -> std::io::Result<Self> {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), answers)
    }

    /// Start at this address, such as that of one that is gone.
    ///
    /// # Errors
    /// It is not free.
    pub fn start_at(address: SocketAddr, answers: RegistryAnswers) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(RegistryState { answers, seen: Mutex::default(), changed: Condvar::new() });
        let state = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            for connection in listener.incoming() {
                if state.seen().closing {
                    return;
                }
                let Ok(connection) = connection else { continue };
                let state = Arc::clone(&state);
                // A client that hangs up early is its own affair.
                std::thread::spawn(move || drop(state.answer(&connection)));
            }
        });
        Ok(Self { address, shared, thread: Some(thread) })
    }

    /// Return the address, which is also the registry's name in references.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Write a home directory whose `registries.conf` allows plain HTTP here.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_home(&self, home: &Path) -> std::io::Result<()> {
        let directory = home.join(".config/containers");
        fs::create_dir_all(&directory)?;
        let text = format!("[[registry]]\nlocation = \"{}\"\ninsecure = true\n", self.address);
        fs::write(directory.join("registries.conf"), text)
    }

    /// Return the digests of the blobs that were asked for, in the order of the requests.
    #[must_use]
    pub fn blobs(&self) -> Vec<String> {
        self.shared.seen().blobs.clone()
    }

    /// Return the number of requests for a manifest.
    #[must_use]
    pub fn manifests(&self) -> usize {
        self.shared.seen().manifests
    }

    /// Wait until this number of manifests was asked for.
    pub fn wait_for_manifests(&self, count: usize) {
        let mut seen = self.shared.seen();
        while seen.manifests < count {
            seen = self.shared.changed.wait(seen).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Wait until it has stopped in the middle of a blob.
    pub fn wait_for_stall(&self) {
        let mut seen = self.shared.seen();
        while seen.stalled.is_empty() {
            seen = self.shared.changed.wait(seen).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for ImageRegistry {
    fn drop(&mut self) {
        let mut seen = self.shared.seen();
        seen.closing = true;
        for connection in seen.stalled.drain(..) {
            // The client may have closed it.
            let _ = connection.shutdown(Shutdown::Both);
        }
        drop(seen);
        self.shared.changed.notify_all();
        // Wakes the thread; where that fails it has ended already.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl RegistryState {
    fn seen(&self) -> MutexGuard<'_, SeenRequests> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, mut connection: &TcpStream) -> std::io::Result<()> {
        use RegistryAnswers::{Distant, Gathering, Layout, Moving, Stalling, Status, Truncating};
        let request = read_request(connection)?;
        let path = request.split(' ').nth(1).unwrap_or_default();
        let (status, kind, body) = match &self.answers {
            Layout(layout)
            | Stalling(layout, _)
            | Truncating(layout)
            | Gathering(layout, _)
            | Distant(layout, _) => look_up(layout, path),
            Moving(layout, later) => match path.split_once("/manifests/") {
                Some((names, tag)) if !tag.contains(':') && self.seen().tags > 0 => {
                    look_up(layout, &format!("{names}/manifests/{later}"))
                }
                _ => look_up(layout, path),
            },
            Status(status, message) => (*status, "application/json", message.as_bytes().to_vec()),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        let Some((_, digest)) = path.split_once("/blobs/").filter(|_| !request.starts_with("HEAD")) else {
            self.count_manifest(path);
            connection.write_all(head.as_bytes())?;
            return if request.starts_with("HEAD") { Ok(()) } else { connection.write_all(&body) };
        };
        let is_layer = !body.starts_with(b"{");
        let (before, layers) = self.count(digest, is_layer);
        if let Distant(_, speed) = &self.answers {
            std::thread::sleep(speed.delay);
        }
        connection.write_all(head.as_bytes())?;
        let half = body.get(..body.len() / 2).unwrap_or_default();
        match &self.answers {
            Stalling(_, whole) if before >= *whole => {
                connection.write_all(half)?;
                self.seen().stalled.push(connection.try_clone()?);
                self.changed.notify_all();
                Ok(())
            }
            Truncating(_) if layers > 0 => connection.write_all(half),
            Gathering(_, least) if is_layer => {
                self.wait_for_layers(*least);
                connection.write_all(&body)
            }
            Distant(_, speed) => send_slowly(connection, &body, *speed),
            _ => connection.write_all(&body),
        }
    }

    /// Count a request for a blob. Returns the number of those before it, and of those for layers.
    fn count(&self, digest: &str, is_layer: bool) -> (usize, usize) {
        let mut seen = self.seen();
        let before = seen.blobs.len();
        seen.blobs.push(digest.to_owned());
        seen.layers += usize::from(is_layer);
        self.changed.notify_all();
        (before, seen.layers)
    }

    fn count_manifest(&self, path: &str) {
        let Some((_, name)) = path.split_once("/manifests/") else { return };
        let mut seen = self.seen();
        seen.manifests += 1;
        seen.tags += usize::from(!name.contains(':'));
        self.changed.notify_all();
    }

    fn wait_for_layers(&self, least: usize) {
        let mut seen = self.seen();
        while seen.layers < least && !seen.closing {
            seen = self.changed.wait(seen).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn send_slowly(mut connection: &TcpStream, body: &[u8], speed: LinkSpeed) -> std::io::Result<()> {
    let (begun, mut sent) = (Instant::now(), 0.0);
    for portion in body.chunks(PORTION) {
        connection.write_all(portion)?;
        sent += f64::from(u32::try_from(portion.len()).unwrap_or(u32::MAX));
        let due = Duration::from_secs_f64(sent / f64::from(speed.rate));
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
    }
    Ok(())
}

/// The request's first line; nothing for a client that speaks TLS, whose first byte is that of a handshake.
fn read_request(connection: &TcpStream) -> std::io::Result<String> {
    const TLS_HANDSHAKE: u8 = 22;
    let mut reader = BufReader::new(connection);
    if reader.fill_buf()?.first() == Some(&TLS_HANDSHAKE) {
        return Ok(String::new());
    }
    let mut lines = reader.lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    Ok(request)
}

fn look_up(layout: &Path, path: &str) -> (&'static str, &'static str, Vec<u8>) {
    let (kind, digest) = match path.strip_prefix("/v2/os/") {
        None => return ("200 OK", "application/json", b"{}".to_vec()),
        Some(path) => match path.split_once('/') {
            Some(("manifests", digest)) if digest.starts_with("sha256:") => (MANIFEST, digest.to_owned()),
            Some(("manifests", _)) => (MANIFEST, only_manifest(layout)),
            Some(("blobs", digest)) => ("application/octet-stream", digest.to_owned()),
            _ => return ("400 Bad Request", "text/plain", Vec::new()),
        },
    };
    match fs::read(layout.join("blobs").join(digest.replace(':', "/"))) {
        Ok(blob) if kind == MANIFEST && is_index(&blob) => ("200 OK", INDEX, blob),
        Ok(blob) => ("200 OK", kind, blob),
        Err(_) => ("404 Not Found", "application/json", MANIFEST_UNKNOWN.to_vec()),
    }
}

fn is_index(manifest: &[u8]) -> bool {
    let manifest: serde_json::Value = serde_json::from_slice(manifest).unwrap_or_default();
    manifest.get("mediaType").is_some_and(|kind| kind == INDEX)
}

fn only_manifest(layout: &Path) -> String {
    let index = fs::read(layout.join("index.json")).unwrap_or_default();
    let index: serde_json::Value = serde_json::from_slice(&index).unwrap_or_default();
    let digest = index.pointer("/manifests/0/digest").and_then(serde_json::Value::as_str);
    digest.unwrap_or_default().to_owned()
}
