//! Blob in a file without a name, which is read while it grows. The kernel frees the space when the process ends,
//! however it ends.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::fs::FileExt as _;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags, openat};

use super::PlannedBlob;

const BUFFER: usize = 128 * 1024;

/// Blob that one thread writes and another one reads.
#[derive(Debug)]
pub(super) struct BlobFile {
    pub(super) blob: PlannedBlob,
    file: File,
    growth: Mutex<BlobGrowth>,
    grown: Condvar,
}

#[derive(Debug, Default)]
struct BlobGrowth {
    written: u64,
    /// Result of the fetch, once it has ended.
    outcome: Option<Result<(), String>>,
}

/// Open a file without a name in a directory.
pub(super) fn open_unnamed(directory: impl AsFd) -> std::io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(File::from(openat(directory, ".", flags, Mode::RUSR | Mode::WUSR)?))
}

impl BlobFile {
    pub(super) fn create(blob: PlannedBlob, directory: impl AsFd) -> std::io::Result<Self> {
        let file = open_unnamed(directory)?;
        Ok(Self { blob, file, growth: Mutex::default(), grown: Condvar::new() })
    }

    /// Append bytes. One thread only does.
    pub(super) fn append(&self, bytes: &[u8]) -> std::io::Result<()> {
        let end = self.growth().written;
        self.file.write_all_at(bytes, end)?;
        self.growth().written = end + bytes.len() as u64;
        self.grown.notify_all();
        Ok(())
    }

    /// Return the number of bytes written.
    pub(super) fn written(&self) -> u64 {
        self.growth().written
    }

    /// Set the result of the fetch. Nothing is appended afterwards.
    pub(super) fn finish(&self, outcome: Result<(), String>) {
        self.growth().outcome = Some(outcome);
        self.grown.notify_all();
    }

    /// Return true if the fetch has failed.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self.growth().outcome, Some(Err(_)))
    }

    /// Open a complete and verified blob once more, for reading from its beginning; `None` before that.
    pub(super) fn reopen(&self) -> Option<File> {
        let is_complete = matches!(self.growth().outcome, Some(Ok(())));
        // A second descriptor of the same open file would share its position.
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        is_complete.then(|| File::open(path).ok()).flatten()
    }

    /// Copy the blob while it grows. Returns the result of the fetch.
    pub(super) fn copy_to(&self, to: &mut impl Write) -> Result<(), String> {
        let mut position = 0;
        let mut buffer = vec![0; BUFFER];
        loop {
            let end = self.wait_beyond(position)?;
            if end == position {
                return Ok(());
            }
            let length = usize::try_from(end - position).unwrap_or(BUFFER).min(BUFFER);
            let part = buffer.get_mut(..length).unwrap_or_default();
            let copied = self.file.read_exact_at(part, position).and_then(|()| to.write_all(part));
            copied.map_err(|error| format!("reading the blob {}: {error}", self.blob.digest))?;
            position += length as u64;
        }
    }

    /// Wait for bytes beyond the position, and return their end; the position itself after the last byte.
    fn wait_beyond(&self, position: u64) -> Result<u64, String> {
        let mut growth = self.growth();
        loop {
            let end = match &growth.outcome {
                Some(Ok(())) => return Ok(growth.written),
                Some(Err(error)) => return Err(error.clone()),
                None => growth.written,
            };
            if end > position {
                return Ok(end);
            }
            growth = self.grown.wait(growth).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn growth(&self) -> MutexGuard<'_, BlobGrowth> {
        self.growth.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
