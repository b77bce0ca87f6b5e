//! Holders of file locks.
//!
//! `/proc/locks` names no process for a lock of an open file description, as libostree takes it. The `lock:` lines of
//! `/proc/PID/fdinfo/FD` belong to a process, and name the file by its inode (`proc_pid_fdinfo(5)`).

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

const PROCESSES: &str = "/proc";

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
    let inode = file.metadata().ok()?.ino();
    let processes = fs::read_dir(PROCESSES).ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let pid = pids.find(|pid| locks_inode(*pid, inode))?;
    let program = fs::read_to_string(format!("{PROCESSES}/{pid}/comm")).ok()?;
    Some(LockHolder { pid, program: program.trim_end().to_owned() })
}

fn locks_inode(pid: u32, inode: u64) -> bool {
    // The process may have exited meanwhile.
    let Ok(descriptors) = fs::read_dir(format!("{PROCESSES}/{pid}/fdinfo")) else { return false };
    let mut texts = descriptors.flatten().filter_map(|entry| fs::read_to_string(entry.path()).ok());
    texts.any(|text| text.lines().any(|line| locked_inode(line) == Some(inode)))
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
