//! The format of the kernel's dm-log-writes, which QEMU's `blklogwrites` writes too.
//!
//! A first sector says how many entries there are and how long a sector is. Each entry is a header in
//! a sector of its own, with what was written behind it. All numbers are little-endian.

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

/// What an entry does to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Nothing,
    /// Writes.
    Write,
    /// Says that the content is of no use any more.
    Discard,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Counted from 0.
    pub index: usize,
    /// What it does.
    pub kind: Kind,
    /// The first byte on the disk.
    pub start: u64,
    /// In bytes.
    pub length: u64,
    /// Whether everything before it is durable once it is done.
    pub flushes: bool,
    /// Whether it is durable itself once it is done.
    pub is_durable: bool,
    /// Where its content begins in the log.
    content: u64,
}

/// The requests between two flushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epoch<'l> {
    /// Counted from 1: the flush that ends it.
    pub number: usize,
    /// In the order in which they were made.
    pub entries: &'l [Entry],
    /// Whether a flush ends it; the last one has none perhaps.
    pub is_flushed: bool,
}

/// A log that was read; the contents stay in the file.
#[derive(Debug)]
pub struct WriteLog {
    file: File,
    entries: Vec<Entry>,
    torn_at: Option<usize>,
}

impl WriteLog {
    /// Reads the headers. An end that is missing or half written is left out.
    ///
    /// # Errors
    /// It cannot be read, or it is no such log.
    pub fn open(path: &Path) -> Result<Self> {
        let shown = path.display();
        let file = File::open(path).with_context(|| format!("reading the write log {shown}"))?;
        let end = file.metadata()?.len();
        let mut first = [0; 28];
        file.read_exact_at(&mut first, 0).with_context(|| format!("{shown} is too short for a write log"))?;
        let (magic, version, count) = (number(&first, 0), number(&first, 8), number(&first, 16));
        let sector = number(&first, 24);
        ensure!(magic == MAGIC, "{shown} is no write log: it begins with {magic:#x}");
        ensure!(version == VERSION, "{shown} is a write log of version {version}; {VERSION} is known");
        ensure!(sector.is_power_of_two() && sector >= 512, "{shown} has sectors of {sector} bytes");
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

    /// None where it is not all there.
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
        // Requests are logged side by side: one that was not written yet is a hole before others.
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

    /// All of them, in the order in which they were made.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The first entry that is not all there, where the log's end is torn.
    #[must_use]
    pub fn torn_at(&self) -> Option<usize> {
        self.torn_at
    }

    /// The requests, split at the flushes. One that flushes and writes flushes first.
    pub fn epochs(&self) -> impl Iterator<Item = Epoch<'_>> {
        let (mut rest, mut number) = (self.entries.as_slice(), 0);
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            number += 1;
            // A flush that writes was the end of the epoch before: it is not looked at again.
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

    /// What an entry wrote.
    ///
    /// # Errors
    /// It cannot be read, or the entry does not write.
    pub fn content(&self, entry: &Entry) -> Result<Vec<u8>> {
        if entry.kind != Kind::Write {
            bail!("entry {} of the write log has no content", entry.index);
        }
        let mut content = vec![0; usize::try_from(entry.length)?];
        let read = self.file.read_exact_at(&mut content, entry.content);
        read.with_context(|| format!("reading entry {} of the write log", entry.index))?;
        Ok(content)
    }
}

/// The number at `at`: of 8 bytes, or of the 4 that are left there.
fn number(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.iter().skip(at).take(8);
    bytes.rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
