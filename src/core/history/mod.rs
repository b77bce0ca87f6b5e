//! History of a host: its generations, updates, rollbacks and repairs, with their causes. Informative: nothing decides
//! by it.

mod event;
pub mod history_log;
pub mod update_phases;

use std::collections::BTreeSet;

pub use event::HistoryEvent;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::core::state::record::GenerationRecord;
use crate::core::values::identifiers::{BootId, ConfigName, GenerationId};
use crate::core::values::names::ManagedPath;

/// Paths that an entry names; it counts the others.
const NAMED_PATHS: usize = 20;
/// Paths of an entry that texts show.
const SHOWN_PATHS: usize = 3;
/// Characters of a reason that an entry keeps.
const REASON_CHARACTERS: usize = 500;

/// One event of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryEntry {
    /// Time of the entry, by the clock of the host.
    pub time: Timestamp,
    pub event: HistoryEvent,
    #[serde(flatten)]
    pub note: HistoryNote,
    /// Party that asked for the event.
    pub requester: EntryRequester,
    /// Boot of the kernel, as in `journalctl --list-boots`.
    #[serde(default)]
    pub boot_id: BootId,
}

impl HistoryEntry {
    /// Describe the event in one line, without its time.
    #[must_use]
    pub fn summary(&self) -> String {
        format!("{}: {}", self.event.as_str(), self.description())
    }

    /// Describe the subject of the event in one line.
    #[must_use]
    pub fn description(&self) -> String {
        self.description_below(None)
    }

    /// Describe the subject of the event in one line, without the image if it is the one of the entries above.
    #[must_use]
    pub fn description_below(&self, image_above: Option<&str>) -> String {
        let HistoryNote { config, generation, previous, image, reason, seconds, .. } = &self.note;
        let image = image.as_deref().filter(|image| image_above != Some(*image));
        let parts = [
            config.as_ref().map(ToString::to_string),
            generation.as_ref().map(|generation| format!("generation {}", generation.shown())),
            previous.as_ref().map(|previous| format!("after {}", previous.shown())),
            image.map(|image| format!("image {image}")),
            self.note.listed_paths(),
            reason.clone(),
            seconds.map(|seconds| format!("took {}", duration(seconds))),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        parts.join("; ")
    }
}

/// Spell a duration in seconds, as in `2 min 5 s`.
#[must_use]
pub fn duration(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// Process that made an entry, and the user behind it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryRequester {
    /// Subcommand of `flameholder`; `daemon` for the jobs of the daemon.
    pub command: String,
    /// Name or number of the user who logged in; `None` for services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// Subject of an entry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HistoryNote {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<ConfigName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<GenerationId>,
    /// Generation before the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous: Option<GenerationId>,
    /// OS image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Cause, in one sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Changed paths, at most 20 of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<ManagedPath>,
    /// Number of changed paths.
    #[serde(skip_serializing_if = "is_zero")]
    pub path_count: usize,
    /// Duration of the work, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl HistoryNote {
    /// Note about a generation, as its record describes it.
    #[must_use]
    pub fn of(record: &GenerationRecord) -> Self {
        Self {
            config: Some(record.config.clone()),
            generation: Some(record.generation.clone()),
            image: record.deployment.as_ref().and_then(|deployment| deployment.image.clone()),
            ..Self::default()
        }
    }

    /// Note about a generation of a config, before its record is at hand.
    #[must_use]
    pub fn of_config(config: &ConfigName, generation: &GenerationId) -> Self {
        let (config, generation) = (Some(config.clone()), Some(generation.clone()));
        Self { config, generation, ..Self::default() }
    }

    /// Add the cause, cut to a length that keeps the history readable.
    #[must_use]
    pub fn because(self, reason: &str) -> Self {
        Self { reason: Some(reason.chars().take(REASON_CHARACTERS).collect()), ..self }
    }

    /// Add the generation before the event.
    #[must_use]
    pub fn after(self, previous: Option<&GenerationId>) -> Self {
        Self { previous: previous.cloned(), ..self }
    }

    /// List the changed paths in one line; `None` without any.
    #[must_use]
    pub fn listed_paths(&self) -> Option<String> {
        let listed: Vec<&str> = self.paths.iter().take(SHOWN_PATHS).map(ManagedPath::as_str).collect();
        let others = self.path_count.saturating_sub(listed.len());
        let others = if others == 0 { String::new() } else { format!(" and {others} more") };
        (!listed.is_empty()).then(|| format!("{}{others}", listed.join(", ")))
    }

    /// Add changed paths, each once.
    #[must_use]
    pub fn with_paths<'a>(self, paths: impl IntoIterator<Item = &'a ManagedPath>) -> Self {
        let paths: BTreeSet<&ManagedPath> = paths.into_iter().collect();
        let path_count = paths.len();
        Self { paths: paths.into_iter().take(NAMED_PATHS).cloned().collect(), path_count, ..self }
    }

    /// Add the duration of the work in seconds.
    #[must_use]
    pub fn lasting(self, seconds: u64) -> Self {
        Self { seconds: Some(seconds), ..self }
    }
}
