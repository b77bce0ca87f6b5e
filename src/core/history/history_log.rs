//! File of the history: lines with checksums, the newest last, bounded in size.

use super::HistoryEntry;
use crate::core::state::log_line;

/// Size of the file in bytes that is never exceeded.
pub const MOST_BYTES: usize = 1 << 20;
/// Size to which a full file is cut, so that it is not written again for each entry.
const KEPT_BYTES: usize = MOST_BYTES / 2;

/// Entries of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct HistoryLog {
    /// Entries, the oldest first.
    pub entries: Vec<HistoryEntry>,
    /// Number of lines that are damaged or of an unknown shape. A last line that a power cut ended is none.
    pub damaged: usize,
}

impl HistoryLog {
    /// Read a file.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        let mut log = Self::default();
        for line in log_line::whole(bytes) {
            match line.and_then(|json| serde_json::from_slice(json).ok()) {
                Some(entry) => log.entries.push(entry),
                None => log.damaged += 1,
            }
        }
        log
    }
}

/// Write that adds an entry to a file.
#[derive(Debug, PartialEq, Eq)]
pub enum HistoryWrite {
    /// These bytes are appended.
    Append(Vec<u8>),
    /// These bytes replace the file: its end is cut off, or it is full.
    Replace(Vec<u8>),
}

/// Return the write that adds `entry` to a file with these bytes. Of a full file, the newer half is kept.
#[must_use]
pub fn add(written: &[u8], entry: &HistoryEntry) -> HistoryWrite {
    let line = log_line::render(entry);
    let whole = written.get(..log_line::whole_length(written)).unwrap_or_default();
    if whole.len() + line.len() > MOST_BYTES {
        let from = whole.len().saturating_sub(KEPT_BYTES.saturating_sub(line.len()));
        let newer = whole.get(from..).unwrap_or_default();
        let newer = newer.iter().position(|byte| *byte == b'\n').and_then(|end| newer.get(end + 1..));
        return HistoryWrite::Replace([newer.unwrap_or_default(), &line].concat());
    }
    if whole.len() < written.len() || written.is_empty() {
        return HistoryWrite::Replace([whole, &line].concat());
    }
    HistoryWrite::Append(line)
}

#[cfg(test)]
mod tests {
    use super::super::{EntryRequester, HistoryEvent, HistoryNote};
    use super::*;
    use crate::core::values::identifiers::BootId;

    fn entry(second: i64, reason: &str) -> HistoryEntry {
        HistoryEntry {
            time: jiff::Timestamp::from_second(second).unwrap(),
            event: HistoryEvent::Blocked,
            note: HistoryNote::default().because(reason),
            requester: EntryRequester { command: "apply".to_owned(), user: Some("core".to_owned()) },
            boot_id: BootId::default(),
        }
    }

    fn added(written: &[u8], entry: &HistoryEntry) -> Vec<u8> {
        match add(written, entry) {
            HistoryWrite::Append(line) => [written, &line].concat(),
            HistoryWrite::Replace(bytes) => bytes,
        }
    }

    #[test]
    fn entries_are_read_as_they_were_added() {
        let entries = [entry(0, "first"), entry(86_400, "second")];
        let bytes = entries.iter().fold(Vec::new(), |bytes, entry| added(&bytes, entry));
        assert_eq!(HistoryLog::parse(&bytes), HistoryLog { entries: entries.to_vec(), damaged: 0 });
        assert!(String::from_utf8(bytes).unwrap().contains("\"time\":\"1970-01-02T00:00:00Z\""));
    }

    #[test]
    fn cut_off_line_is_left_out_and_replaced() {
        let first = added(b"", &entry(0, "first"));
        let both = added(&first, &entry(1, "second"));
        for cut in first.len() + 1..both.len() {
            let torn = both.get(..cut).unwrap();
            assert_eq!(HistoryLog::parse(torn), HistoryLog::parse(&first));
            let again = added(torn, &entry(1, "second"));
            assert_eq!(again, both);
        }
    }

    #[test]
    fn damaged_and_unknown_lines_are_counted_and_hide_no_other() {
        let first = added(b"", &entry(0, "first"));
        let damaged = String::from_utf8(first.clone()).unwrap().replace("first", "fürst");
        let unknown = log_line::render(&serde_json::json!({"time": "yesterday"}));
        let all = [damaged.as_bytes(), &unknown, &first].concat();
        let log = HistoryLog::parse(&all);
        assert_eq!((log.entries.len(), log.damaged), (1, 2));
    }

    #[test]
    fn full_file_keeps_the_newer_half() {
        let mut bytes = Vec::new();
        for number in 0..4_000 {
            bytes = added(&bytes, &entry(number, &"x".repeat(400)));
            assert!(bytes.len() <= MOST_BYTES);
        }
        let log = HistoryLog::parse(&bytes);
        assert_eq!(log.damaged, 0);
        assert_eq!(log.entries.last().unwrap().time.as_second(), 3_999);
        let seconds: Vec<i64> = log.entries.iter().map(|entry| entry.time.as_second()).collect();
        assert!(seconds.windows(2).all(|pair| pair[1] == pair[0] + 1) && seconds.len() > 800, "{seconds:?}");
    }
}
