//! Log of disk writes in the format of the kernel's dm-log-writes, which QEMU's `blklogwrites` writes too.
//!
//! The first sector has the number of entries and the size of a sector. Each entry is a header in a sector of
//! its own, followed by the written data. Numbers are little-endian.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};

const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;
const FLUSH: u64 = 1 << 0;
const FUA: u64 = 1 << 1;
const DISCARD: u64 = 1 << 2;
const MARK: u64 = 1 << 3;
const KNOWN: u64 = FLUSH | FUA | DISCARD | MARK;

/// Effect of an entry on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// No data: a flush or a mark.
    Nothing,
    Write,
    /// Discards the content of the range.
    Discard,
}

/// One logged request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Counted from 0.
    pub index: usize,
    pub kind: Kind,
    /// First byte on the disk.
    pub start: u64,
    /// In bytes.
    pub length: u64,
    /// True if the request makes all earlier ones durable (FLUSH).
    pub flushes: bool,
    /// True if the request itself is durable once it completes (FUA).
    pub is_durable: bool,
    /// Offset of the written data in the log.
    content: u64,
}

/// Requests between two flushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epoch<'l> {
    /// Number of the flush that ends the epoch, counted from 1.
    pub number: usize,
    /// In the order of the log.
    pub entries: &'l [Entry],
    /// True if a flush ends the epoch; the last epoch may end without one.
    pub is_flushed: bool,
}

/// A parsed log; the written data stays in the file.
#[derive(Debug)]
pub struct WriteLog {
    file: File,
    entries: Vec<Entry>,
    torn_at: Option<usize>,
}

impl WriteLog {
    /// Read the headers. A missing or torn end is ignored.
    ///
    /// # Errors
    /// The file cannot be read, or is no such log.
    pub fn open(path: &Path) -> Result<Self> {
        let shown = path.display();
        let file = File::open(path).with_context(|| format!("reading the write log {shown}"))?;
        let end = file.metadata()?.len();
        let mut first = [0; 28];
        file.read_exact_at(&mut first, 0).with_context(|| format!("{shown} is too short for a write log"))?;
        let (magic, version, count) = (number(&first, 0), number(&first, 8), number(&first, 16));
        let sector = number(&first, 24);
        ensure!(magic == MAGIC, "{shown} is no write log: magic number {magic:#x}");
        ensure!(
            version == VERSION,
            "unsupported version {version} of the write log {shown}; expected {VERSION}"
        );
        ensure!(
            sector.is_power_of_two() && sector >= 512,
            "invalid sector size {sector} in the write log {shown}"
        );
        let mut log = Self { file, entries: Vec::new(), torn_at: None };
        let mut at = sector;
        for index in 0..usize::try_from(count)? {
            let Some(entry) = log.entry(index, at, sector, end) else {
                log.torn_at = Some(index);
                break;
            };
            let length = if entry.kind == Kind::Write { entry.length } else { 0 };
            at = entry.content + length;
            log.entries.push(entry);
        }
        Ok(log)
    }

    /// Parse the header at `at`. Returns `None` if the entry is incomplete.
    fn entry(&self, index: usize, at: u64, sector: u64, end: u64) -> Option<Entry> {
        let mut header = [0; 32];
        self.file.read_exact_at(&mut header, at).ok()?;
        let flags = number(&header, 16);
        let start = number(&header, 0).checked_mul(sector)?;
        let length = number(&header, 8).checked_mul(sector)?;
        let content = at + sector;
        start.checked_add(length)?;
        let has_content = flags & (DISCARD | MARK) == 0;
        let is_complete = content.checked_add(if has_content { length } else { 0 })? <= end;
        // Requests are logged in parallel: one that is not written yet is a hole before later ones.
        let is_written = flags & KNOWN != 0 || length > 0;
        if flags & !KNOWN != 0 || !is_complete || !is_written {
            return None;
        }
        let kind = match length {
            0 => Kind::Nothing,
            _ if flags & MARK != 0 => Kind::Nothing,
            _ if flags & DISCARD != 0 => Kind::Discard,
            _ => Kind::Write,
        };
        let (flushes, is_durable) = (flags & FLUSH != 0, flags & FUA != 0);
        Some(Entry { index, kind, start, length, flushes, is_durable, content })
    }

    /// Return all complete entries, in the order of the log.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Return the index of the first incomplete entry if the end of the log is torn.
    #[must_use]
    pub fn torn_at(&self) -> Option<usize> {
        self.torn_at
    }

    /// Split the requests at the flushes. A request that flushes and writes flushes first.
    pub fn epochs(&self) -> impl Iterator<Item = Epoch<'_>> {
        let (mut rest, mut number) = (self.entries.as_slice(), 0);
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            number += 1;
            // A flush with data ended the previous epoch, and is the first entry of this one.
            let flush = rest
                .iter()
                .enumerate()
                .position(|(at, entry)| entry.flushes && (at > 0 || entry.kind == Kind::Nothing));
            let keeps = |at: usize| rest.get(at).is_some_and(|entry| entry.kind == Kind::Nothing);
            let length = flush.map_or(rest.len(), |at| if keeps(at) { at + 1 } else { at });
            let (entries, behind) = rest.split_at_checked(length)?;
            rest = behind;
            Some(Epoch { number, entries, is_flushed: flush.is_some() })
        })
    }

    /// Return the data that an entry wrote.
    ///
    /// # Errors
    /// The log cannot be read, or the entry has no data.
    pub fn content(&self, entry: &Entry) -> Result<Vec<u8>> {
        if entry.kind != Kind::Write {
            bail!("entry {} of the write log has no data", entry.index);
        }
        let mut content = vec![0; usize::try_from(entry.length)?];
        let read = self.file.read_exact_at(&mut content, entry.content);
        read.with_context(|| format!("reading entry {} of the write log", entry.index))?;
        Ok(content)
    }
}

/// Return the little-endian number at `at`: 8 bytes, or the last 4 of the buffer.
fn number(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.iter().skip(at).take(8);
    bytes.rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
