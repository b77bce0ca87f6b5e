//! Where the daemon stands, as `status` tells it. No secrets: names, paths and reasons.

use serde::{Deserialize, Serialize};

use super::lifecycle::{ConfigRef, DaemonPhase, Lifecycle};

/// What the daemon says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DaemonReport {
    /// Its process.
    pub pid: u32,
    /// Name of its phase (docs/lifecycle.md).
    pub phase: String,
    /// Name of the configuration that is wanted.
    pub wanted: Option<String>,
    /// Name of the configuration that the host is.
    pub runs: Option<String>,
    /// What is wrong, or waited for, in one sentence.
    pub reason: Option<String>,
    /// Who has to do something about it: `configuration`, `transient`, `host`, `bug`.
    pub class: Option<String>,
    /// Attempts that failed in a row.
    pub failures: u32,
    /// What is wrong with the source.
    pub source_trouble: Option<String>,
}

impl DaemonReport {
    /// Of where it stands.
    #[must_use]
    pub fn of(lifecycle: &Lifecycle, source_trouble: Option<&str>, pid: u32) -> Self {
        let name = |wish: Option<&ConfigRef>| wish.map(|wish| wish.config.clone());
        Self {
            pid,
            phase: lifecycle.phase.name().to_owned(),
            wanted: name(lifecycle.wish.as_ref()),
            runs: name(lifecycle.runs.as_ref()),
            reason: lifecycle.phase.reason(),
            class: match &lifecycle.phase {
                DaemonPhase::BackingOff { problem } => Some(problem.class.as_str().to_owned()),
                _ => None,
            },
            failures: lifecycle.failures,
            source_trouble: source_trouble.map(str::to_owned),
        }
    }

    /// The same for people.
    #[must_use]
    pub fn sentence(&self) -> String {
        let about = match (&self.wanted, &self.runs) {
            (Some(wanted), Some(runs)) if wanted != runs => format!(" {wanted}, on {runs}"),
            (Some(name), _) | (None, Some(name)) => format!(" {name}"),
            (None, None) => String::new(),
        };
        let reason = self.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        format!("{}{about}{reason}", self.phase)
    }
}
