//! A socket on which both sides write one JSON document per line: QEMU's monitor and the guest's agent.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

/// The socket, with what was received behind the last whole line.
#[derive(Debug)]
pub struct Lines {
    socket: UnixStream,
    received: Vec<u8>,
}

impl Lines {
    /// Connects to a socket that is listened on.
    pub fn connect(path: &Path) -> Result<Self> {
        let socket =
            UnixStream::connect(path).with_context(|| format!("connecting to {}", path.display()))?;
        Ok(Self { socket, received: Vec::new() })
    }

    /// Writes one line.
    pub fn send(&mut self, document: &Value) -> Result<()> {
        self.socket.set_write_timeout(Some(Duration::from_secs(5)))?;
        self.socket
            .write_all(format!("{document}\n").as_bytes())
            .with_context(|| format!("sending {document}"))
    }

    /// Writes the byte that makes the guest's agent forget what it has half received.
    pub fn send_delimiter(&mut self) -> Result<()> {
        self.socket.set_write_timeout(Some(Duration::from_secs(5)))?;
        Ok(self.socket.write_all(&[0xff])?)
    }

    /// Forgets what was received and not read.
    pub fn forget(&mut self) {
        self.received.clear();
    }

    /// The next line, or nothing when none is complete within `limit`.
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

    /// The answer to a request that was sent: the member `return`.
    ///
    /// # Errors
    /// As for [`Lines::receive`]; none came within `limit`, or it is an error.
    pub fn answer(&mut self, what: &str, limit: Duration) -> Result<Value> {
        loop {
            let Some(mut line) = self.receive(limit)? else {
                bail!("waited {} s in vain for the answer to {what}", limit.as_secs());
            };
            if let Some(answer) = line.get_mut("return") {
                return Ok(answer.take());
            }
            ensure!(line.get("error").is_none(), "{what} was refused: {line}");
            // Anything else is an event.
        }
    }

    /// Returns whether something came.
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
