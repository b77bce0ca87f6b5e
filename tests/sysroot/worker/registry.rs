//! The few answers of a container registry that a pull needs, over plain HTTP on the loopback device.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// How the registry answers.
#[derive(Clone)]
pub(crate) enum Answers {
    /// With the images of this OCI layout.
    Layout(PathBuf),
    /// With one status and this message.
    Status(&'static str, &'static str),
    /// With the images of this OCI layout, until it stops in the middle of a blob, after this number of complete ones,
    /// and keeps the connection open.
    Stalling(PathBuf, usize),
}

/// A registry that is gone when this is dropped.
pub(crate) struct Registry {
    address: SocketAddr,
    closing: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Registry {
    pub(crate) fn start(answers: Answers) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let closing = Arc::new(AtomicBool::new(false));
        let closes = Arc::clone(&closing);
        let thread = std::thread::spawn(move || {
            let (mut blobs, mut stalled) = (0, Vec::new());
            for connection in listener.incoming() {
                if closes.load(Ordering::SeqCst) {
                    return;
                }
                let connection = connection.unwrap();
                if matches!(answers, Answers::Stalling(..)) {
                    stalled.extend(connection.try_clone());
                }
                // A client that hangs up early is its own affair.
                let _ = answer(connection, &answers, &mut blobs);
                if !matches!(&answers, Answers::Stalling(_, whole) if blobs > *whole) {
                    stalled.clear();
                }
            }
        });
        Self { address, closing, thread: Some(thread) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Writes a home directory whose `registries.conf` allows plain HTTP here.
    pub(crate) fn write_home(&self, home: &Path) {
        let directory = home.join(".config/containers");
        fs::create_dir_all(&directory).unwrap();
        let text = format!("[[registry]]\nlocation = \"{}\"\ninsecure = true\n", self.address);
        fs::write(directory.join("registries.conf"), text).unwrap();
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::SeqCst);
        // Wakes the thread; where that fails it has ended already.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(mut connection: TcpStream, answers: &Answers, blobs: &mut usize) -> std::io::Result<()> {
    let request = read_request(&connection)?;
    let path = request.split(' ').nth(1).unwrap_or_default();
    let (status, kind, body) = match answers {
        Answers::Layout(layout) | Answers::Stalling(layout, _) => look_up(layout, path),
        Answers::Status(status, message) => (*status, "application/json", message.as_bytes().to_vec()),
    };
    write!(
        connection,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    )?;
    if request.starts_with("HEAD") {
        return Ok(());
    }
    *blobs += usize::from(path.contains("/blobs/"));
    let length = match answers {
        Answers::Stalling(_, whole) if *blobs > *whole => body.len() / 2,
        _ => body.len(),
    };
    connection.write_all(&body[..length])
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
    let manifest = "application/vnd.oci.image.manifest.v1+json";
    let (kind, digest) = match path.strip_prefix("/v2/os/") {
        None => return ("200 OK", "application/json", b"{}".to_vec()),
        Some(path) => match path.split_once('/') {
            Some(("manifests", digest)) if digest.starts_with("sha256:") => (manifest, digest.to_owned()),
            Some(("manifests", _)) => (manifest, only_manifest(layout)),
            Some(("blobs", digest)) => ("application/octet-stream", digest.to_owned()),
            _ => return ("400 Bad Request", "text/plain", Vec::new()),
        },
    };
    match fs::read(layout.join("blobs").join(digest.replace(':', "/"))) {
        Ok(blob) => ("200 OK", kind, blob),
        Err(_) => ("404 Not Found", "application/json", b"{}".to_vec()),
    }
}

fn only_manifest(layout: &Path) -> String {
    let index = fs::read(layout.join("index.json")).unwrap();
    let index: serde_json::Value = serde_json::from_slice(&index).unwrap();
    index["manifests"][0]["digest"].as_str().unwrap().to_owned()
}
