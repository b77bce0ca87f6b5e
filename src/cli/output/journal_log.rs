//! Log records in the journal, with their fields: for a daemon, whose standard error nobody reads.

use log::{LevelFilter, Log, Metadata, Record};
use systemd_journal_logger::{JournalLog, connected_to_journal};

use crate::cli::output::stderr_log;

struct OwnRecords(JournalLog);

impl Log for OwnRecords {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        stderr_log::is_ours(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            self.0.log(record);
        }
    }

    fn flush(&self) {
        self.0.flush();
    }
}

/// Sends log records there from now on, where systemd connected standard error with it; else to standard error.
pub(crate) fn install() {
    let journal = connected_to_journal().then(JournalLog::new).and_then(Result::ok);
    match journal.map(|journal| log::set_boxed_logger(Box::new(OwnRecords(journal)))) {
        Some(Ok(())) => log::set_max_level(LevelFilter::Info),
        _ => stderr_log::install(),
    }
}
