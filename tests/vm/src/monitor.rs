//! QEMU's own monitor: stops, continues and saves the machine.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use crate::lines::Lines;
use crate::wait::until;

const LIMIT: Duration = Duration::from_secs(60);

/// A connection to the monitor.
#[derive(Debug)]
pub struct Monitor(Lines);

impl Monitor {
    /// Connects, as soon as QEMU listens.
    pub fn connect(socket: &Path) -> Result<Self> {
        let lines = until("QEMU's monitor", LIMIT, || Ok(Lines::connect(socket).ok()))?;
        let mut monitor = Self(lines);
        // The greeting.
        monitor.0.receive(LIMIT)?.context("QEMU's monitor does not greet")?;
        monitor.execute("qmp_capabilities", &json!({}))?;
        Ok(monitor)
    }

    /// Executes one command of the QEMU Machine Protocol and returns its answer.
    pub fn execute(&mut self, command: &str, arguments: &Value) -> Result<Value> {
        self.0.send(&json!({ "execute": command, "arguments": arguments }))?;
        self.0.answer(command, LIMIT)
    }

    /// The run state, such as `running` or `paused`.
    pub fn status(&mut self) -> Result<String> {
        let answer = self.execute("query-status", &json!({}))?;
        Ok(answer.get("status").and_then(Value::as_str).unwrap_or_default().to_owned())
    }

    /// Lets a machine run whose state is being read from a file.
    pub fn resume_restored(&mut self) -> Result<()> {
        until("the saved state to be read", LIMIT, || Ok((self.status()? != "inmigrate").then_some(())))?;
        self.execute("cont", &json!({}))?;
        Ok(())
    }

    /// Stops the machine and writes its state to a file.
    pub fn save(&mut self, file: &Path) -> Result<()> {
        self.execute("stop", &json!({}))?;
        self.execute("migrate", &json!({ "uri": format!("file:{}", file.display()) }))?;
        until("the state to be written", LIMIT, || {
            let answer = self.execute("query-migrate", &json!({}))?;
            match answer.get("status").and_then(Value::as_str) {
                Some("completed") => Ok(Some(())),
                Some("failed") => bail!("QEMU could not save the machine's state: {answer}"),
                _ => Ok(None),
            }
        })
    }
}
