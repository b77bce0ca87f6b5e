//! Document of `history -o json` (`docs/schema/history.json`).

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::core::history::history_log::HistoryLog;
use crate::core::history::update_phases::{UpdatePhase, phases};
use crate::core::history::{HistoryEntry, HistoryEvent};
use crate::core::values::identifiers::{BootId, ConfigName, GenerationId};
use crate::core::values::names::ManagedPath;

/// Value of the member `schema`.
const SCHEMA: u32 = 1;

/// Events of this host: generations, updates, rollbacks and repairs, with their causes.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryDocument<'a> {
    /// Version of this document. Members may be added within a version; a member that changes its meaning
    /// makes a new one.
    #[schemars(extend("const" = SCHEMA))]
    schema: u32,
    /// Events, the oldest first.
    events: Vec<HistoryItem<'a>>,
    /// Number of lines of the history that cannot be read.
    damaged_lines: usize,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct HistoryItem<'a> {
    /// Time by the clock of the host, in UTC.
    #[schemars(with = "String", extend("format" = "date-time"))]
    time: &'a Timestamp,
    event: &'a HistoryEvent,
    /// `metadata.name` of the config; null if the event is about none.
    config: Option<&'a ConfigName>,
    /// Generation; null if the event is about none.
    generation: Option<&'a GenerationId>,
    /// Generation before the event; null if there was none, or if it is not known.
    previous_generation: Option<&'a GenerationId>,
    /// OS image of the generation's deployment; null if the event changes none.
    #[schemars(length(min = 1))]
    image: Option<&'a str>,
    /// Cause, in one sentence; null if the event needs none.
    #[schemars(length(min = 1))]
    reason: Option<&'a str>,
    /// Changed paths; of many, the first 20.
    paths: &'a [ManagedPath],
    /// Number of changed paths.
    path_count: usize,
    /// Duration of the work in seconds; null if it was not measured.
    seconds: Option<u64>,
    /// Durations of the update that ended with this event, by phases of the daemon; empty for other events.
    phases: Vec<PhaseItem>,
    requester: RequesterItem<'a>,
    /// Boot of the kernel, as in `journalctl --list-boots`.
    boot_id: &'a BootId,
}

/// Phase of an update.
#[derive(Debug, Serialize, JsonSchema)]
struct PhaseItem {
    phase: &'static str,
    /// Duration in seconds.
    seconds: u64,
}

/// Party that asked for an event.
#[derive(Debug, Serialize, JsonSchema)]
struct RequesterItem<'a> {
    /// Subcommand of `flameholder`; `daemon` for the jobs of the daemon.
    command: &'a str,
    /// Name or number of the user who logged in to call the command; null for services.
    user: Option<&'a str>,
}

impl<'a> HistoryDocument<'a> {
    /// Build the document of the last `most` events.
    #[must_use]
    pub fn of(log: &'a HistoryLog, most: usize) -> Self {
        let from = log.entries.len().saturating_sub(most);
        let events = (from..log.entries.len()).filter_map(|index| {
            let entry = log.entries.get(index)?;
            Some(HistoryItem::of(entry, &phases(log.entries.get(..=index)?, entry)))
        });
        Self { schema: SCHEMA, events: events.collect(), damaged_lines: log.damaged }
    }
}

impl<'a> HistoryItem<'a> {
    fn of(entry: &'a HistoryEntry, phases: &[UpdatePhase]) -> Self {
        let HistoryEntry { time, event, note, requester, boot_id } = entry;
        let phases = phases.iter().map(|phase| PhaseItem { phase: phase.name, seconds: phase.seconds });
        Self {
            time,
            event,
            config: note.config.as_ref(),
            generation: note.generation.as_ref(),
            previous_generation: note.previous.as_ref(),
            image: note.image.as_deref(),
            reason: note.reason.as_deref(),
            paths: &note.paths,
            path_count: note.path_count,
            seconds: note.seconds,
            phases: phases.collect(),
            requester: RequesterItem { command: &requester.command, user: requester.user.as_deref() },
            boot_id,
        }
    }
}
