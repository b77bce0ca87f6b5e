//! File without a name in memory, for content that a long-lived process passes on.
//!
//! The allocator keeps freed memory for later, so a large document that was once on the heap of the daemon would
//! count as its memory for months. Memory of such a file is freed with it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;

use rustix::fs::{MemfdFlags, memfd_create};

/// Bytes that are copied at a time.
const PIECE: usize = 16 << 10;

/// Open file in memory. Its content is gone when this is dropped.
#[derive(Debug)]
pub struct MemoryFile {
    file: File,
    length: usize,
}

impl MemoryFile {
    /// Create an empty file; `name` shows in `/proc` only.
    pub fn create(name: &str) -> io::Result<Self> {
        Ok(Self { file: memfd_create(name, MemfdFlags::CLOEXEC)?.into(), length: 0 })
    }

    /// Create a file with these bytes.
    pub fn of(name: &str, bytes: &[u8]) -> io::Result<Self> {
        let mut file = Self::create(name)?;
        file.append(bytes)?;
        Ok(file)
    }

    /// Append these bytes.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.length as u64)?;
        self.length += bytes.len();
        Ok(())
    }

    /// Return another handle to the same content, which stays until both are dropped.
    pub fn share(&self) -> io::Result<Self> {
        Ok(Self { file: self.file.try_clone()?, length: self.length })
    }

    /// Open the content anew for a reader with a position of its own, such as a program whose standard input it is.
    pub fn reopened(&self) -> io::Result<File> {
        File::open(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }

    /// Return the length in bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Copy the content to `output`.
    pub fn copy_to(&self, output: &mut dyn Write) -> io::Result<()> {
        let mut piece = [0; PIECE];
        let mut copied = 0;
        while copied < self.length {
            let read = self.file.read_at(&mut piece, copied as u64)?;
            let piece = piece.get(..read).filter(|piece| !piece.is_empty());
            output.write_all(piece.ok_or(io::ErrorKind::UnexpectedEof)?)?;
            copied += read;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_copied_as_often_as_asked() {
        let mut file = MemoryFile::create("test").unwrap();
        let parts = [vec![1; PIECE - 1], vec![2; 3], Vec::new(), vec![3; 2 * PIECE]];
        for part in &parts {
            file.append(part).unwrap();
        }
        assert_eq!(file.length(), 3 * PIECE + 2);
        for _ in 0..2 {
            let mut copy = Vec::new();
            file.copy_to(&mut copy).unwrap();
            assert_eq!(copy, parts.concat());
        }
    }
}
