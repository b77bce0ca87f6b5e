//! Tests of replays, with logs and file systems that the tests make.

mod bootloader;
mod format;
mod journal;
mod pair;
mod replays;

use std::path::Path;

/// A request of a guest to its disk.
#[derive(Debug, Clone)]
pub enum Request {
    Write(u64, Vec<u8>),
    /// A write with FUA, which is durable without a flush.
    Through(u64, Vec<u8>),
    Discard(u64, u64),
    Flush,
}

/// Write a log as `blklogwrites` does, with sectors of 512 bytes.
pub fn write_log(path: &Path, requests: &[Request]) {
    let sectors = |bytes: usize| u64::try_from(bytes.div_ceil(512)).unwrap();
    let mut log = sector(&[0x006a_7366_7773_6872, 1, sectors(requests.len() * 512), 512]);
    for request in requests {
        match request {
            Request::Write(start, content) | Request::Through(start, content) => {
                let flags = if matches!(request, Request::Through(..)) { 2 } else { 0 };
                log.extend(sector(&[start / 512, sectors(content.len()), flags, 0]));
                log.extend(content);
                log.resize(log.len().next_multiple_of(512), 0);
            }
            Request::Discard(start, length) => log.extend(sector(&[start / 512, length / 512, 4, 0])),
            Request::Flush => log.extend(sector(&[0, 0, 1, 0])),
        }
    }
    std::fs::write(path, log).unwrap();
}

fn sector(numbers: &[u64]) -> Vec<u8> {
    let mut sector: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    sector.resize(512, 0);
    sector
}

/// Return true if e2fsprogs is installed; print the reason for a skipped test otherwise.
pub fn can_run() -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let is_installed =
        |program: &&str| std::env::split_paths(&paths).any(|path| path.join(program).is_file());
    let missing = ["mke2fs", "e2fsck", "e2undo"].into_iter().find(|program| !is_installed(program));
    if let Some(program) = missing {
        eprintln!("skipped: {program} is not installed");
    }
    missing.is_none()
}
