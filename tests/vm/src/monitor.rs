//! Client of QEMU's monitor (QEMU Machine Protocol): stops, continues and saves the machine.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use crate::lines::Lines;
use crate::wait::until;

const LIMIT: Duration = Duration::from_secs(60);

/// Connection to the monitor.
#[derive(Debug)]
pub struct Monitor(Lines);

impl Monitor {
    /// Connect as soon as QEMU listens, and negotiate capabilities.
    pub fn connect(socket: &Path) -> Result<Self> {
        let lines = until("QEMU's monitor", LIMIT, || Ok(Lines::connect(socket).ok()))?;
        let mut monitor = Self(lines);
        // QEMU sends a greeting first.
        monitor.0.receive(LIMIT)?.context("QEMU's monitor sent no greeting")?;
        monitor.execute("qmp_capabilities", &json!({}))?;
        Ok(monitor)
    }

    /// Execute a command of the QEMU Machine Protocol, and return its answer.
    pub fn execute(&mut self, command: &str, arguments: &Value) -> Result<Value> {
        self.0.send(&json!({ "execute": command, "arguments": arguments }))?;
        self.0.answer(command, LIMIT)
    }

    /// Return the run state, such as `running` or `paused`.
    pub fn status(&mut self) -> Result<String> {
        let answer = self.execute("query-status", &json!({}))?;
        Ok(answer.get("status").and_then(Value::as_str).unwrap_or_default().to_owned())
    }

    /// Continue a machine once its saved state is read from the file.
    pub fn resume_restored(&mut self) -> Result<()> {
        until("QEMU to read the saved state", LIMIT, || Ok((self.status()? != "inmigrate").then_some(())))?;
        self.execute("cont", &json!({}))?;
        Ok(())
    }

    /// Stop the machine, and write its state to a file.
    pub fn save(&mut self, file: &Path) -> Result<()> {
        self.execute("stop", &json!({}))?;
        self.execute("migrate", &json!({ "uri": format!("file:{}", file.display()) }))?;
        until("QEMU to write the state", LIMIT, || {
            let answer = self.execute("query-migrate", &json!({}))?;
            match answer.get("status").and_then(Value::as_str) {
                Some("completed") => Ok(Some(())),
                Some("failed") => bail!("saving the machine's state failed: {answer}"),
                _ => Ok(None),
            }
        })
    }
}
