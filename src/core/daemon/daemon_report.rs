//! Status report of the daemon, read by `flameholder status`: names, paths and reasons, but no secrets and no
//! file contents.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::grant::GrantWait;
use super::lifecycle::{ConfigRef, DaemonPhase, Lifecycle};
use crate::core::pinned_images::pin_state::PinState;
use crate::core::values::foreign_text::harmless_line;
use crate::core::values::identifiers::ConfigName;

/// Phase, configs and current problem of the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DaemonReport {
    /// Process ID.
    pub pid: u32,
    /// Source of the desired config, as `daemon --source` names it: `kube`, `dir:PATH`, a URL or `oci://…`.
    #[serde(default)]
    pub source: Option<String>,
    /// Digest of the artifact that the source named last; null before it was pulled, and with a source of another kind.
    #[serde(default)]
    pub source_digest: Option<String>,
    /// Name of the daemon's phase (docs/development/lifecycle.md).
    pub phase: String,
    /// Time at which the phase began, by the clock of the host; null if an earlier release wrote the report.
    #[serde(default)]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub since: Option<Timestamp>,
    /// Name of the desired config.
    pub desired: Option<ConfigName>,
    /// Name of the current config.
    pub current: Option<ConfigName>,
    /// Reason for the error or the wait, in one sentence.
    pub reason: Option<String>,
    /// Subject of the wait in the phase `AwaitingGrant`; null in others.
    #[serde(default)]
    pub waits_for: Option<GrantWait>,
    /// Problem class of a failed attempt: the party that can solve it.
    #[schemars(extend("enum" = ["configuration", "transient", "host", "drift", "bug", "interrupted", null]))]
    pub class: Option<String>,
    /// Number of failed attempts in a row.
    pub failures: u32,
    /// Error of the source (cluster, directory, config server or registry).
    pub source_error: Option<String>,
    /// Reason why the cluster's newest trust material (CAs and pull secret) is not applied.
    #[serde(default)]
    pub trust_error: Option<String>,
    /// State of the pinned image sets; null while the cluster has none for this node.
    #[serde(default)]
    pub pinned_images: Option<PinState>,
}

/// State of the daemon's source.
#[derive(Debug, Clone, Default)]
pub struct SourceState {
    /// As `daemon --source` names it.
    pub name: String,
    /// Digest of the artifact that it named last.
    pub digest: Option<String>,
    /// Cause why it cannot be read, and way out.
    pub error: Option<String>,
}

impl DaemonReport {
    /// Report the state of `lifecycle` at `time`, for the process `pid` that follows `source`.
    #[must_use]
    pub fn of(lifecycle: &Lifecycle, source: &SourceState, pid: u32, time: Timestamp) -> Self {
        let name = |desired: Option<&ConfigRef>| desired.map(|desired| desired.config.clone());
        Self {
            pid,
            source: Some(source.name.clone()),
            source_digest: source.digest.clone(),
            phase: lifecycle.phase.name().to_owned(),
            since: Some(time),
            desired: name(lifecycle.desired.as_ref()),
            current: name(lifecycle.current.as_ref()),
            reason: lifecycle.reason().map(|reason| harmless_line(&reason).into_owned()),
            waits_for: lifecycle.phase.grant_wait().cloned(),
            class: match &lifecycle.phase {
                DaemonPhase::BackingOff { problem } => Some(problem.class.as_str().to_owned()),
                _ => None,
            },
            failures: lifecycle.failures,
            source_error: source.error.clone(),
            trust_error: lifecycle
                .trust_failure
                .as_ref()
                .map(|failure| harmless_line(&failure.problem.reason).into_owned()),
            pinned_images: lifecycle.pins.clone().filter(|pins| !pins.is_idle()),
        }
    }

    /// Return the report with the time at which its phase began: that of the report before, if that has the same phase.
    #[must_use]
    pub fn continuing(self, before: Option<&Self>) -> Self {
        let same = before.filter(|before| before.phase == self.phase);
        Self { since: same.map_or(self.since, |before| before.since), ..self }
    }

    /// Summarise the report in one line, with the time at which the phase began.
    #[must_use]
    pub fn summary_since(&self) -> String {
        let since = self.since.map(|since| format!(" (since {since:.0})")).unwrap_or_default();
        format!("{}{since}", self.summary())
    }

    /// Summarise the report in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let about = match (&self.desired, &self.current) {
            (Some(desired), Some(current)) if desired != current => format!(" {desired}, on {current}"),
            (Some(name), _) | (None, Some(name)) => format!(" {name}"),
            (None, None) => String::new(),
        };
        let reason = self.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        harmless_line(&format!("{}{about}{reason}", self.phase)).into_owned()
    }
}
