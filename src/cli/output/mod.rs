//! Output of commands: text, documents, colours, diffs, progress and log lines.

mod charset;
pub(crate) mod document;
pub(crate) mod journal_log;
pub(crate) mod progress;
pub(crate) mod stderr_log;
pub(crate) mod styled_text;
pub(crate) mod terminal;
pub(crate) mod text_diff;
pub(crate) mod words;
