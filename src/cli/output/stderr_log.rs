//! Log sink of operators' commands: standard error, since standard output carries only the result.

use log::kv::{Key, Value, VisitSource};
use log::{Level, LevelFilter, Log, Metadata, Record};

use crate::cli::output::terminal;
use crate::core::values::foreign_text::harmless_line;

/// Writes each record as one line, with its fields behind the message.
struct StderrLog;

impl Log for StderrLog {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        if !is_ours(record.metadata()) {
            return;
        }
        let mut fields = Fields(String::new());
        let shown = record.key_values().visit(&mut fields);
        let note = if shown.is_err() { " (some fields cannot be shown)" } else { "" };
        let line = format!("{}{}{note}", harmless_line(&record.args().to_string()), fields.0);
        match record.level() {
            Level::Error => terminal::error(&line),
            Level::Warn => terminal::warn(&line),
            level => terminal::say(&format!("{}: {line}", level.as_str().to_ascii_lowercase())),
        }
    }

    fn flush(&self) {}
}

/// True if the record is from this crate. Records of libraries are dropped: they describe internals, and may
/// contain credentials.
pub(crate) fn is_ours(metadata: &Metadata<'_>) -> bool {
    metadata.target().split("::").next() == Some(env!("CARGO_CRATE_NAME"))
}

struct Fields(String);

impl<'kvs> VisitSource<'kvs> for Fields {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), log::kv::Error> {
        // Names in capitals are journal fields, such as `MESSAGE_ID`, and mean nothing to a reader.
        if key.as_str().bytes().any(|byte| byte.is_ascii_lowercase()) {
            self.0.push_str(&format!(" {key}={value}"));
        }
        Ok(())
    }
}

/// Install standard error as log sink for lines of this level and above.
pub(crate) fn install(least: LevelFilter) {
    static LOG: StderrLog = StderrLog;
    if log::set_logger(&LOG).is_ok() {
        log::set_max_level(least);
    }
}
