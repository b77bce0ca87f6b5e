//! Somebody else's unwritten data on the same file system, which nobody has asked to be durable.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};

const MIB: usize = 1 << 20;
/// How much is written.
pub const DIRTY_MIB: usize = 1024;
/// What is to stay free besides, for whoever shares the disk.
const SPARE_MIB: u64 = 2048;

/// A large file that was written and not flushed. It has no name, so that it is gone, with what is still unwritten of it,
/// when dropped and however this process ends.
#[derive(Debug)]
pub struct DirtyPages {
    file: File,
}

impl DirtyPages {
    /// Why it cannot be done in `directory`, if it cannot.
    ///
    /// # Errors
    /// The file system cannot be asked.
    pub fn obstacle(directory: &Path) -> Result<Option<String>> {
        let space = rustix::fs::statvfs(directory).context("asking for free space")?;
        let free = space.f_bavail.saturating_mul(space.f_frsize) / MIB as u64;
        let needed = DIRTY_MIB as u64 + SPARE_MIB;
        Ok((free < needed).then(|| format!("{free} MiB are free there, {needed} are needed")))
    }

    /// Writes it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn spread(directory: &Path) -> Result<Self> {
        let mut dirty = Self { file: tempfile::tempfile_in(directory).context("making the foreign file")? };
        let mebibyte = vec![0xa5; MIB];
        for _ in 0..DIRTY_MIB {
            dirty.file.write_all(&mebibyte).context("writing the foreign file")?;
        }
        Ok(dirty)
    }
}

/// MiB that wait to be written, on the whole machine.
///
/// # Errors
/// The kernel does not say.
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
    fn unwritten_is_dirty_and_under_way() {
        let meminfo =
            "MemFree: 999999 kB\nDirty:      2048 kB\nWriteback:   1024 kB\nWritebackTmp: 4096 kB\n";
        assert_eq!(parse_unwritten(meminfo), 3);
    }
}
