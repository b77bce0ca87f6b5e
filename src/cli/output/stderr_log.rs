//! Log records on standard error: a command's standard output carries its result only.

use crate::cli::output::terminal::say;
use log::kv::{Key, Value, VisitSource};
use log::{LevelFilter, Log, Metadata, Record};

/// Writes each record as one line, its fields behind the message.
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
        let level = record.level().as_str().to_ascii_lowercase();
        let note = if shown.is_err() { " (some fields cannot be shown)" } else { "" };
        say(&format!("{level}: {}{}{note}", record.args(), fields.0));
    }

    fn flush(&self) {}
}

/// What libraries say of their own workings is nothing to those who read our log, and may hold what is secret.
pub(crate) fn is_ours(metadata: &Metadata<'_>) -> bool {
    metadata.target().split("::").next() == Some(env!("CARGO_CRATE_NAME"))
}

struct Fields(String);

impl<'kvs> VisitSource<'kvs> for Fields {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), log::kv::Error> {
        // Names in capitals are fields of the journal.
        if key.as_str().bytes().any(|byte| byte.is_ascii_lowercase()) {
            self.0.push_str(&format!(" {key}={value}"));
        }
        Ok(())
    }
}

/// Sends log records to standard error from now on.
pub(crate) fn install() {
    static LOG: StderrLog = StderrLog;
    if log::set_logger(&LOG).is_ok() {
        log::set_max_level(LevelFilter::Info);
    }
}
