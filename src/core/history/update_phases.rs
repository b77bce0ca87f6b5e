//! Durations of the phases of an update, from the entries about its generation.

use super::{HistoryEntry, HistoryEvent, duration};
use crate::core::values::identifiers::{BootId, GenerationId};

/// Phases with the events that begin and end them, by the names of the daemon's phases.
const PHASES: [(&str, HistoryEvent, HistoryEvent); 5] = [
    ("AwaitingGrant", HistoryEvent::Staged, HistoryEvent::Granted),
    ("Draining", HistoryEvent::Granted, HistoryEvent::Unlocked),
    ("ShuttingDown", HistoryEvent::Unlocked, HistoryEvent::Finalized),
    ("Rebooting", HistoryEvent::Finalized, HistoryEvent::Booted),
    ("CheckingBoot", HistoryEvent::Booted, HistoryEvent::Confirmed),
];

/// Phase of an update and its duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdatePhase {
    pub name: &'static str,
    pub seconds: u64,
}

/// Return the phases of the update that ended with `end`, the last of `entries`. Empty for events that end no update with
/// a reboot. A phase in which the clock was set back is left out.
#[must_use]
pub fn phases(entries: &[HistoryEntry], end: &HistoryEntry) -> Vec<UpdatePhase> {
    let Some(generation) = end.note.generation.as_ref().filter(|_| end.event == HistoryEvent::Confirmed)
    else {
        return Vec::new();
    };
    let preparing = last(entries, generation, &HistoryEvent::Staged).and_then(|staged| staged.note.seconds);
    let preparing = preparing.map(|seconds| UpdatePhase { name: "Preparing", seconds });
    let others = PHASES.iter().filter_map(|(name, from, to)| {
        let from = last(entries, generation, from)
            // Without a reboot policy, no grant comes before the drain.
            .or_else(|| {
                last(entries, generation, &HistoryEvent::Staged).filter(|_| *from == HistoryEvent::Granted)
            })?;
        let to = last(entries, generation, to)?;
        let seconds = u64::try_from(to.time.as_second() - from.time.as_second()).ok()?;
        Some(UpdatePhase { name, seconds })
    });
    preparing.into_iter().chain(others).collect()
}

/// Return the seconds that the last confirmed update needed from its unlock to its confirmation; `None` if the history has
/// none.
#[must_use]
pub fn last_disruption(entries: &[HistoryEntry]) -> Option<u64> {
    let index = entries.iter().rposition(|entry| entry.event == HistoryEvent::Confirmed)?;
    let (end, entries) = (entries.get(index)?, entries.get(..=index)?);
    let unlocked = last(entries, end.note.generation.as_ref()?, &HistoryEvent::Unlocked)?;
    u64::try_from(end.time.as_second() - unlocked.time.as_second()).ok()
}

/// Tell in one line what the last update of the boot `boot` changed and how long it took; `None` if the boot has none.
#[must_use]
pub fn last_update(entries: &[HistoryEntry], boot: &BootId) -> Option<String> {
    let is_end = |entry: &HistoryEntry| {
        matches!(entry.event, HistoryEvent::Applied | HistoryEvent::Confirmed) && entry.boot_id == *boot
    };
    let index = entries.iter().rposition(is_end)?;
    let (end, entries) = (entries.get(index)?, entries.get(..=index)?);
    let generation = end.note.generation.as_ref()?;
    // The changes of a reboot are in the note of the staged update.
    let change = last(entries, generation, &HistoryEvent::Staged).unwrap_or(end);
    let changed = change.note.listed_paths().map(|paths| format!("changed {paths}"));
    let phases = phases(entries, end);
    let took: Vec<String> = if phases.is_empty() {
        end.note.seconds.map(|seconds| format!("took {}", duration(seconds))).into_iter().collect()
    } else {
        phases.iter().map(|phase| format!("{} {}", phase.name, duration(phase.seconds))).collect()
    };
    Some(changed.into_iter().chain(took).collect::<Vec<_>>().join(", "))
}

fn last<'a>(
    entries: &'a [HistoryEntry],
    generation: &GenerationId,
    event: &HistoryEvent,
) -> Option<&'a HistoryEntry> {
    let is_it =
        |entry: &&HistoryEntry| entry.note.generation.as_ref() == Some(generation) && entry.event == *event;
    entries.iter().rfind(is_it)
}

#[cfg(test)]
mod tests {
    use super::super::{EntryRequester, HistoryNote};
    use super::*;

    fn entry(second: i64, event: HistoryEvent, generation: &str, seconds: Option<u64>) -> HistoryEntry {
        let note = HistoryNote::of_config(&"c".into(), &generation.into());
        HistoryEntry {
            time: jiff::Timestamp::from_second(second).unwrap(),
            event,
            note: HistoryNote { seconds, ..note },
            requester: EntryRequester::default(),
            boot_id: BootId::default(),
        }
    }

    #[test]
    fn last_update_tells_its_changes_and_phases() {
        let path = crate::core::values::names::ManagedPath::constant("/etc/a");
        let mut staged = entry(100, HistoryEvent::Staged, "b", Some(90));
        staged.note = staged.note.with_paths([&path]);
        let mut applied = entry(300, HistoryEvent::Applied, "c", Some(2));
        applied.note = applied.note.with_paths([&path]);
        let entries = [
            staged,
            entry(160, HistoryEvent::Unlocked, "b", None),
            entry(230, HistoryEvent::Confirmed, "b", None),
        ];
        let boot = BootId::default();
        assert_eq!(
            last_update(&entries, &boot).unwrap(),
            "changed /etc/a, Preparing 1 min 30 s, Draining 1 min 0 s"
        );
        assert_eq!(last_update(&[applied], &boot).unwrap(), "changed /etc/a, took 2 s");
        assert_eq!(last_update(&entries, &"another".into()), None);
    }

    #[test]
    fn each_phase_lasts_from_one_event_to_the_next() {
        let entries = [
            entry(0, HistoryEvent::Confirmed, "a", None),
            entry(100, HistoryEvent::Staged, "b", Some(90)),
            entry(110, HistoryEvent::Staged, "c", Some(1)),
            entry(160, HistoryEvent::Unlocked, "b", None),
            entry(170, HistoryEvent::Finalized, "b", None),
            entry(230, HistoryEvent::Booted, "b", None),
            // The clock was set back by the time server.
            entry(215, HistoryEvent::Confirmed, "b", None),
        ];
        let found = phases(&entries, entries.last().unwrap());
        let found: Vec<_> = found.iter().map(|phase| (phase.name, phase.seconds)).collect();
        assert_eq!(found, [("Preparing", 90), ("Draining", 60), ("ShuttingDown", 10), ("Rebooting", 60)]);
        assert_eq!(phases(&entries, &entries[1]), []);
        assert_eq!(phases(&entries[..1], &entries[0]), []);
    }
}
