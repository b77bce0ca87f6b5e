//! JSON documents, one per line, over a Unix socket: the protocol of QEMU's monitor and of the guest agent.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

/// A connection, with the received bytes of an incomplete line.
#[derive(Debug)]
pub struct Lines {
    socket: UnixStream,
    received: Vec<u8>,
}

impl Lines {
    /// Connect to a listening socket.
    pub fn connect(path: &Path) -> Result<Self> {
        let socket =
            UnixStream::connect(path).with_context(|| format!("connecting to {}", path.display()))?;
        Ok(Self { socket, received: Vec::new() })
    }

    /// Send a document as one line.
    pub fn send(&mut self, document: &Value) -> Result<()> {
        self.socket.set_write_timeout(Some(Duration::from_secs(5)))?;
        self.socket
            .write_all(format!("{document}\n").as_bytes())
            .with_context(|| format!("sending {document}"))
    }

    /// Send the byte 0xff, which makes the guest agent discard an incomplete request.
    pub fn send_delimiter(&mut self) -> Result<()> {
        self.socket.set_write_timeout(Some(Duration::from_secs(5)))?;
        Ok(self.socket.write_all(&[0xff])?)
    }

    /// Discard the received lines that were not read.
    pub fn forget(&mut self) {
        self.received.clear();
    }

    /// Return the next line, or `None` if none is complete within `limit`.
    ///
    /// # Errors
    /// The other side closed the socket, or the line is no JSON.
    pub fn receive(&mut self, limit: Duration) -> Result<Option<Value>> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(end) = self.received.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).filter(|&byte| byte != 0xff).collect();
                let line = String::from_utf8_lossy(&line);
                return serde_json::from_str(&line).map(Some).with_context(|| format!("reading {line:?}"));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || !self.fill(left)? {
                return Ok(None);
            }
        }
    }

    /// Return the member `return` of the answer to the request that was sent last, and skip events.
    ///
    /// # Errors
    /// As for [`Lines::receive`]; there is no answer within `limit`, or the answer is an error.
    pub fn answer(&mut self, what: &str, limit: Duration) -> Result<Value> {
        loop {
            let Some(mut line) = self.receive(limit)? else {
                bail!("no answer to {what} within {} s", limit.as_secs());
            };
            if let Some(answer) = line.get_mut("return") {
                return Ok(answer.take());
            }
            ensure!(line.get("error").is_none(), "{what} failed: {line}");
            // Any other line is an event.
        }
    }

    /// Read from the socket. Returns false if nothing arrives within `limit`.
    fn fill(&mut self, limit: Duration) -> Result<bool> {
        self.socket.set_read_timeout(Some(limit))?;
        let mut buffer = vec![0; 1 << 16];
        match self.socket.read(&mut buffer) {
            Ok(0) => bail!("the other side closed the connection"),
            Ok(length) => {
                buffer.truncate(length);
                self.received.append(&mut buffer);
                Ok(true)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(false),
            Err(error) => Err(error).context("receiving"),
        }
    }
}
