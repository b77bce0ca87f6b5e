//! History of the host on its disk, in `/var`, which all deployments share. A failure to write it is no reason to fail
//! a change, and is logged.

use jiff::Timestamp;
use log::Level;

use crate::core::history::history_log::{HistoryLog, HistoryWrite, MOST_BYTES, add};
use crate::core::history::{HistoryEntry, HistoryEvent, HistoryNote};
use crate::core::values::causes::chain;
use crate::core::values::foreign_text::harmless_line;
use crate::core::values::identifiers::{ConfigName, GenerationId};
use crate::core::values::names::ManagedPath;
use crate::host::facts::boot;
use crate::host::systemd::journal;
use crate::host::{HostDisk, HostError, Root, requester};
use crate::transaction::engine::atomic_file;

/// The history.
pub const HISTORY: &str = "/var/lib/flameholder/history";
const NEW_HISTORY: &str = "/var/lib/flameholder/.history.new";
/// Bytes that are read of the file: more than it ever has, as another program can have added some.
const READ_BYTES: usize = 4 * MOST_BYTES;

/// Add an event of the host whose root directory is `root`, and mirror it to the journal.
pub(crate) fn note(root: &Root, event: HistoryEvent, note: HistoryNote) {
    let entry = HistoryEntry {
        time: Timestamp::now(),
        event,
        note,
        requester: requester::of_this_process(),
        boot_id: boot::boot_id(0),
    };
    // Trees and sysroots that do not run are other hosts.
    if boot::is_running(root.path()) {
        mirror(&entry);
    }
    if let Err(error) = append(root, &entry) {
        log::warn!("cannot add to the history {HISTORY}: {}", chain(&error));
    }
}

fn mirror(entry: &HistoryEntry) {
    let HistoryEntry { event, note, requester, .. } = entry;
    let fields = [
        ("MESSAGE_ID", event.message_id()),
        ("FLAMEHOLDER_EVENT", event.as_str()),
        ("FLAMEHOLDER_CONFIG", note.config.as_ref().map_or("", ConfigName::as_str)),
        ("FLAMEHOLDER_GENERATION", note.generation.as_ref().map_or("", GenerationId::as_str)),
        ("FLAMEHOLDER_REASON", note.reason.as_deref().unwrap_or_default()),
        ("FLAMEHOLDER_REQUESTER", &requester.command),
    ];
    let level = match event {
        HistoryEvent::RolledBack | HistoryEvent::Blocked | HistoryEvent::FinalizeFailed => Level::Error,
        HistoryEvent::Repaired => Level::Warn,
        _ => Level::Info,
    };
    journal::send(level, &harmless_line(&entry.summary()), &fields);
}

fn append(disk: &dyn HostDisk, entry: &HistoryEntry) -> Result<(), HostError> {
    let path = ManagedPath::constant(HISTORY);
    let written = match read(disk) {
        // Another program wrote it; each further event would fail as well.
        Err(HostError::TooLarge { .. }) => {
            atomic_file::set_aside(disk, &path)?;
            Vec::new()
        }
        written => written?,
    };
    match add(&written, entry) {
        HistoryWrite::Append(line) => {
            disk.append(&path, &line)?;
            disk.sync(&[Some(path)])
        }
        HistoryWrite::Replace(bytes) => {
            atomic_file::write(disk, &path, &ManagedPath::constant(NEW_HISTORY), &bytes)
        }
    }
}

fn read(disk: &dyn HostDisk) -> Result<Vec<u8>, HostError> {
    Ok(disk.read(&ManagedPath::constant(HISTORY), READ_BYTES)?.unwrap_or_default())
}

/// Load the history of the host whose root directory is `root`; empty without one.
pub fn load(root: &Root) -> Result<HistoryLog, HostError> {
    Ok(HistoryLog::parse(&read(root)?))
}
