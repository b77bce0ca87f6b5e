//! Client of the guest agent (qemu-guest-agent): commands and files without a network or a login.

use std::path::Path;
use std::process::id;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::lines::Lines;
use crate::wait::until;

/// Time limit for the agent's answer to one request.
const LIMIT: Duration = Duration::from_secs(60);
/// Bytes of a file per request.
const CHUNK: usize = 1 << 20;

static SYNCS: AtomicU64 = AtomicU64::new(1);

/// Result of a command in the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Exit code, or the negated number of the signal that killed the command.
    pub code: i64,
    /// Standard output; invalid UTF-8 is replaced.
    pub stdout: String,
    /// Standard error; invalid UTF-8 is replaced.
    pub stderr: String,
}

/// Connection to the agent.
#[derive(Debug)]
pub struct Agent(Lines);

impl Agent {
    /// Connect to QEMU's end of the agent's channel; the agent itself may not run yet.
    pub fn connect(socket: &Path) -> Result<Self> {
        Ok(Self(until("the socket of the guest agent", LIMIT, || Ok(Lines::connect(socket).ok()))?))
    }

    /// Return true if the agent answers within `limit`. Both sides discard messages from before this call.
    pub fn answers(&mut self, limit: Duration) -> Result<bool> {
        let number = u64::from(id()) << 16 | SYNCS.fetch_add(1, Ordering::Relaxed) & 0xffff;
        self.0.forget();
        self.0.send_delimiter()?;
        self.0.send(&json!({ "execute": "guest-sync-delimited", "arguments": { "id": number } }))?;
        loop {
            match self.0.receive(limit) {
                Ok(None) => return Ok(false),
                Ok(Some(line)) if line.get("return").and_then(Value::as_u64) == Some(number) => {
                    return Ok(true);
                }
                // Late answers to earlier requests, possibly truncated.
                Ok(Some(_)) => {}
                Err(error) if error.is::<serde_json::Error>() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Start a shell script and return its process number.
    pub fn start(&mut self, script: &str) -> Result<u64> {
        let arguments = json!({ "path": "/bin/sh", "arg": ["-c", script], "capture-output": true });
        let answer = self.request("guest-exec", &arguments)?;
        answer
            .get("pid")
            .and_then(Value::as_u64)
            .with_context(|| format!("guest-exec returned no process number: {answer}"))
    }

    /// Return the result of a process that [`Agent::start`] started, or `None` while it runs.
    pub fn output_if_ended(&mut self, process: u64) -> Result<Option<Output>> {
        let status = self.request("guest-exec-status", &json!({ "pid": process }))?;
        if status.get("exited").and_then(Value::as_bool) != Some(true) {
            return Ok(None);
        }
        let number = |key: &str| status.get(key).and_then(Value::as_i64);
        let text = |key: &str| -> Result<String> {
            Ok(String::from_utf8_lossy(&decoded(&status, key)?).into_owned())
        };
        Ok(Some(Output {
            code: number("exitcode").unwrap_or_else(|| -number("signal").unwrap_or(255)),
            stdout: text("out-data")?,
            stderr: text("err-data")?,
        }))
    }

    /// Read a file of the guest.
    pub fn read(&mut self, path: &str) -> Result<Vec<u8>> {
        let handle = self.request("guest-file-open", &json!({ "path": path, "mode": "r" }))?;
        let mut bytes = Vec::new();
        loop {
            let answer = self.request("guest-file-read", &json!({ "handle": handle, "count": CHUNK }))?;
            bytes.extend(decoded(&answer, "buf-b64")?);
            if answer.get("eof").and_then(Value::as_bool) != Some(false) {
                break;
            }
        }
        self.request("guest-file-close", &json!({ "handle": handle }))?;
        Ok(bytes)
    }

    /// Replace the content of a file in the guest.
    pub fn write(&mut self, path: &str, bytes: &[u8]) -> Result<()> {
        let handle = self.request("guest-file-open", &json!({ "path": path, "mode": "w" }))?;
        for chunk in bytes.chunks(CHUNK) {
            let arguments = json!({ "handle": handle, "buf-b64": base64::encode(chunk) });
            let answer = self.request("guest-file-write", &arguments)?;
            let written = answer.get("count").and_then(Value::as_u64);
            ensure!(written == u64::try_from(chunk.len()).ok(), "short write to {path}: {answer}");
        }
        self.request("guest-file-close", &json!({ "handle": handle }))?;
        Ok(())
    }

    fn request(&mut self, command: &str, arguments: &Value) -> Result<Value> {
        self.0.send(&json!({ "execute": command, "arguments": arguments }))?;
        self.0.answer(command, LIMIT)
    }
}

fn decoded(answer: &Value, key: &str) -> Result<Vec<u8>> {
    let text = answer.get(key).and_then(Value::as_str).unwrap_or_default();
    base64::decode(text).with_context(|| format!("decoding {key}"))
}
