//! The serial console's log, as QEMU writes it to a file.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

/// What says that this boot comes to nothing.
const FATAL_MESSAGES: [&str; 4] = [
    "Kernel panic - not syncing",
    "No DEFAULT or UI configuration directive found",
    "You are in emergency mode",
    "Entering emergency mode",
];

/// The log of one run of QEMU.
#[derive(Debug)]
pub struct Serial(PathBuf);

impl Serial {
    /// The log in this file, which QEMU makes.
    pub fn new(file: PathBuf) -> Self {
        Self(file)
    }

    /// All that was said so far.
    pub fn text(&self) -> Result<String> {
        let bytes = fs::read(&self.0).with_context(|| format!("reading {}", self.0.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The last lines.
    pub fn tail(&self) -> String {
        let text = self.text().unwrap_or_default();
        let lines: Vec<_> = text.lines().rev().take(25).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    /// # Errors
    /// The guest panicked, or waits for somebody to repair it; said after the first `from` bytes of the log.
    pub fn ensure_alive(&self, from: usize) -> Result<()> {
        let text = self.text()?;
        let new = text.get(from..).unwrap_or(&text);
        if let Some(end) = FATAL_MESSAGES.iter().find(|end| new.contains(*end)) {
            bail!("the guest's console says {end:?}; its end is\n{}", self.tail());
        }
        Ok(())
    }
}
