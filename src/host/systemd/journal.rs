//! Entries in the systemd journal, beside the log of the process: an event of the host belongs there even if a command
//! at a terminal causes it.

use log::{Level, Log as _, Record};
use systemd_journal_logger::JournalLog;

/// Send an entry with this priority and these fields. Without a journal, as in a container, nothing happens.
pub fn send(level: Level, text: &str, fields: &[(&str, &str)]) {
    let Ok(journal) = JournalLog::new() else { return };
    let mut record = Record::builder();
    record.level(level).target(env!("CARGO_CRATE_NAME")).key_values(&fields);
    journal.log(&record.args(format_args!("{text}")).build());
}
