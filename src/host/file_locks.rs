//! Holders of file locks.
//!
//! `/proc/locks` names no process for a lock of an open file description, as libostree takes it. The `lock:` lines of
//! `/proc/PID/fdinfo/FD` belong to a process, and name the file by its inode (`proc_pid_fdinfo(5)`).

use std::fmt;
use std::fs;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::host::facts::processes::{process_directory, process_ids};

/// Process that holds a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockHolder {
    /// Process ID in the PID namespace of the mounted `/proc`.
    pub pid: u32,
    /// Name of the program, at most 15 bytes.
    pub program: String,
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {})", self.program, self.pid)
    }
}

/// Find a process that holds a lock on the file; `None` if no process does, or if this one may not see it.
#[must_use]
pub fn holder(file: &Path) -> Option<LockHolder> {
    let file = file.metadata().ok()?;
    let pid = process_ids().ok()?.find(|pid| locks(*pid, &file))?;
    let program = fs::read_to_string(process_directory(pid).join("comm")).ok()?;
    Some(LockHolder { pid, program: program.trim_end().to_owned() })
}

/// Return true if the process has the file open with a lock. The device in the line is not that of `stat` on each file
/// system, so that the open file itself is compared.
fn locks(pid: u32, file: &Metadata) -> bool {
    let directory = process_directory(pid);
    // The process may have exited meanwhile.
    let Ok(descriptors) = fs::read_dir(directory.join("fdinfo")) else { return false };
    descriptors.flatten().any(|entry| {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        let opened = || directory.join("fd").join(entry.file_name()).metadata();
        text.lines().any(|line| locked_inode(line) == Some(file.ino()))
            && opened().is_ok_and(|open| (open.dev(), open.ino()) == (file.dev(), file.ino()))
    })
}

/// `lock: 1: OFDLCK  ADVISORY  WRITE -1 08:02:131090 0 EOF`. A process that waits for the lock has `->` behind the number.
fn locked_inode(line: &str) -> Option<u64> {
    let mut words = line.strip_prefix("lock:")?.split_whitespace().skip(1);
    let kind = words.next().filter(|kind| *kind != "->")?;
    let (_mode, _access, _pid, file) = (words.next()?, words.next()?, words.next()?, words.next()?);
    (kind != "LEASE").then(|| file.rsplit(':').next()?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use rustix::fs::{FlockOperation, flock};

    use super::*;

    #[test]
    fn inode_is_the_last_part_of_the_file() {
        let line = "lock:\t1: OFDLCK  ADVISORY  WRITE -1 08:02:131090 0 EOF";
        assert_eq!(locked_inode(line), Some(131_090));
        assert_eq!(locked_inode("lock:\t1: -> OFDLCK ADVISORY WRITE -1 08:02:131090 0 EOF"), None);
        assert_eq!(locked_inode("pos:\t0"), None);
        assert_eq!(locked_inode("lock:\t1: OFDLCK"), None);
    }

    #[test]
    fn holder_is_found_by_its_open_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(holder(file.path()), None);
        flock(file.as_file(), FlockOperation::LockExclusive).unwrap();
        let found = holder(file.path()).unwrap();
        assert_eq!(found.pid, std::process::id());
        assert!(found.to_string().ends_with(&format!("(process {})", found.pid)), "{found}");
    }
}
