//! Log of the serial console, a file that QEMU writes.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

/// Messages of a boot that cannot succeed.
const FATAL_MESSAGES: [&str; 4] = [
    "Kernel panic - not syncing",
    "No DEFAULT or UI configuration directive found",
    "You are in emergency mode",
    "Entering emergency mode",
];

/// Log of one run of QEMU.
#[derive(Debug)]
pub struct Serial(PathBuf);

impl Serial {
    /// Create a reader of this file, which QEMU writes.
    pub fn new(file: PathBuf) -> Self {
        Self(file)
    }

    /// Return the output so far.
    pub fn text(&self) -> Result<String> {
        let bytes = fs::read(&self.0).with_context(|| format!("reading {}", self.0.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Return the last 25 lines.
    pub fn tail(&self) -> String {
        let text = self.text().unwrap_or_default();
        let lines: Vec<_> = text.lines().rev().take(25).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    /// Check the output after its first `from` bytes for a dead boot. A message that contains one of `allowed` is accepted.
    ///
    /// # Errors
    /// The kernel panicked, the bootloader has no entry, or systemd started an emergency shell.
    pub fn ensure_alive(&self, from: usize, allowed: &[String]) -> Result<()> {
        let text = self.text()?;
        let new = text.get(from..).unwrap_or(&text);
        let is_allowed = |end: &str| allowed.iter().any(|text| end.contains(text));
        if let Some(end) = FATAL_MESSAGES.iter().find(|end| new.contains(*end) && !is_allowed(end)) {
            bail!(
                "the guest's boot has failed: {end:?} on the console, whose last lines are\n{}",
                self.tail()
            );
        }
        Ok(())
    }
}
