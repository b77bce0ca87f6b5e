//! Dirty pages of another program on the same file system, which no program flushes.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};

const MIB: usize = 1 << 20;
/// The amount of dirty data, in MiB.
pub const DIRTY_MIB: usize = 1024;
/// Free space that is left to other users of the disk, in MiB.
const SPARE_MIB: u64 = 2048;

/// Large file that is written and not flushed. It has no name: the kernel discards it and its dirty pages
/// when this value is dropped or the process ends.
#[derive(Debug)]
pub struct DirtyPages {
    file: File,
}

impl DirtyPages {
    /// Return the reason if `directory` has no room for such a file.
    ///
    /// # Errors
    /// statvfs(3) fails.
    pub fn obstacle(directory: &Path) -> Result<Option<String>> {
        let space = rustix::fs::statvfs(directory).context("reading the free space")?;
        let free = space.f_bavail.saturating_mul(space.f_frsize) / MIB as u64;
        let needed = DIRTY_MIB as u64 + SPARE_MIB;
        Ok((free < needed).then(|| format!("{free} MiB are free, {needed} are needed")))
    }

    /// Write the file in `directory`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn spread(directory: &Path) -> Result<Self> {
        let mut dirty = Self { file: tempfile::tempfile_in(directory).context("creating the foreign file")? };
        let mebibyte = vec![0xa5; MIB];
        for _ in 0..DIRTY_MIB {
            dirty.file.write_all(&mebibyte).context("writing the foreign file")?;
        }
        Ok(dirty)
    }
}

/// Return the dirty memory of the whole machine that is not on a disk yet, in MiB.
///
/// # Errors
/// `/proc/meminfo` cannot be read.
pub fn unwritten() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").context("reading /proc/meminfo")?;
    Ok(parse_unwritten(&text))
}

fn parse_unwritten(meminfo: &str) -> u64 {
    let waiting = ["Dirty:", "Writeback:"];
    let kib: u64 = meminfo
        .lines()
        .filter(|line| waiting.iter().any(|key| line.starts_with(key)))
        .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
        .sum();
    kib / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unwritten_memory_is_dirty_or_in_writeback() {
        let meminfo =
            "MemFree: 999999 kB\nDirty:      2048 kB\nWriteback:   1024 kB\nWritebackTmp: 4096 kB\n";
        assert_eq!(parse_unwritten(meminfo), 3);
    }
}
