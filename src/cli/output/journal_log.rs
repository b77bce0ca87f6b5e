//! Log sink of the daemon and its work processes: records go to the systemd journal with their fields.

use log::{LevelFilter, Log, Metadata, Record};
use systemd_journal_logger::{JournalLog, connected_to_journal};

use crate::cli::output::stderr_log;
use crate::core::values::foreign_text::harmless_line;

struct OwnRecords(JournalLog);

impl Log for OwnRecords {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        stderr_log::is_ours(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let message = record.args().to_string();
            let message = harmless_line(&message);
            let mut harmless = Record::builder();
            harmless.metadata(record.metadata().clone()).key_values(record.key_values());
            harmless.module_path(record.module_path()).file(record.file()).line(record.line());
            self.0.log(&harmless.args(format_args!("{message}")).build());
        }
    }

    fn flush(&self) {
        self.0.flush();
    }
}

/// Install the journal as log sink if systemd connected standard error to it, else standard error, for lines of this level
/// and above.
pub(crate) fn install(least: LevelFilter) {
    let journal = connected_to_journal().then(JournalLog::new).and_then(Result::ok);
    match journal.map(|journal| log::set_boxed_logger(Box::new(OwnRecords(journal)))) {
        Some(Ok(())) => log::set_max_level(least),
        _ => stderr_log::install(least),
    }
}
