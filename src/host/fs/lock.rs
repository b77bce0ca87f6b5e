//! Lock that allows one agent at a time to change a root. The kernel releases it when its holder dies.

use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::core::values::names::ManagedPath;
use crate::core::values::tree::{FileAttributes, PathState};
use crate::host::fs::disk::HostDisk;
use crate::host::fs::error::{FileOperation, HostError};
use crate::host::fs::root::Root;

/// Lock file. Never removed: after a removal, two agents could lock two different files of this name.
const LOCK: &str = "/var/lib/flameholder/lock";

/// Lock file of the daemon. Two daemons would fight over the annotations of the Node.
const DAEMON_LOCK: &str = "/run/flameholder/daemon/lock";
/// Time for which a child holds the lock of a daemon that was killed while it started the child: until it executes its
/// program.
const FORK: Duration = Duration::from_secs(1);
/// Interval of attempts to take the lock of the daemon.
const PACE: Duration = Duration::from_millis(20);
/// Directory that only root may read.
const PRIVATE: &str = "/var/lib/flameholder";

/// Proof that no other process changes this root. Dropping it releases the lock.
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct HostLock {
    file: std::fs::File,
}

impl Drop for HostLock {
    fn drop(&mut self) {
        unlock(&self.file);
    }
}

impl HostLock {
    /// Take the lock of `root`. Does not wait: fails with the holder's process ID if it is held.
    pub fn take(root: &Root) -> Result<Self, HostError> {
        Self::take_file(root, LOCK)
    }

    /// Take the lock of the daemon, under which a host has one daemon at a time. Waits for a second at most.
    pub fn take_of_daemon(root: &Root) -> Result<Self, HostError> {
        let end = Instant::now() + FORK;
        loop {
            match Self::take_file(root, DAEMON_LOCK) {
                Err(HostError::Locked { .. }) if Instant::now() < end => std::thread::sleep(PACE),
                taken => return taken,
            }
        }
    }

    fn take_file(root: &Root, path: &'static str) -> Result<Self, HostError> {
        let failed = |errno| HostError::new(FileOperation::Lock, path, errno);
        let path = ManagedPath::constant(path);
        for directory in path.ancestors().collect::<Vec<_>>().into_iter().rev() {
            let mode = if directory.is_within(PRIVATE) { 0o700 } else { 0o755 };
            let attributes = FileAttributes { mode, uid: 0, gid: 0 };
            if root.path_state(&directory)? == PathState::Absent {
                match root.make_directory(&directory, attributes, None) {
                    Err(error) if error.errno() == Some(Errno::EXIST) => {}
                    // Otherwise a power cut could lose the directory, and the journal in it.
                    created => {
                        created?;
                        root.sync(&[Some(directory.clone()), directory.parent()])?;
                    }
                }
            }
        }
        let parent = root.parent(&path, FileOperation::Lock)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file: OwnedFd =
            rustix::fs::openat(&parent, path.file_name(), flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
        let locked = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        let mut file = std::fs::File::from(file);
        match locked {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(lock_held_by(&mut file, &path)),
            Err(errno) => return Err(failed(errno)),
        }
        let pid = format!("{}\n", std::process::id());
        // Only for the message of others: on a full disk, recovery and rollback need the lock most of all.
        if let Err(error) =
            file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(pid.as_bytes()))
        {
            log::debug!("cannot write the process ID into {path}: {error}");
        }
        Ok(Self { file })
    }

    /// Fail if the lock of `root` is held. Changes nothing.
    pub fn ensure_free(root: &Root) -> Result<(), HostError> {
        Self::ensure_free_file(root, LOCK)
    }

    /// Fail if a daemon runs on `root`. Changes nothing.
    pub fn ensure_no_daemon(root: &Root) -> Result<(), HostError> {
        Self::ensure_free_file(root, DAEMON_LOCK)
    }

    fn ensure_free_file(root: &Root, lock: &'static str) -> Result<(), HostError> {
        let path = ManagedPath::constant(lock);
        if root.path_state(&path)? == PathState::Absent {
            return Ok(());
        }
        let parent = root.parent(&path, FileOperation::Lock)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&parent, path.file_name(), flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(HostError::new(FileOperation::Lock, lock, errno)),
        };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => {
                unlock(&file);
                Ok(())
            }
            Err(Errno::WOULDBLOCK) => Err(lock_held_by(&mut std::fs::File::from(file), &path)),
            Err(errno) => Err(HostError::new(FileOperation::Lock, lock, errno)),
        }
    }
}

/// Unlock the file before it is closed: a child process that another thread forks has it open until it executes its
/// program, and would hold the lock for so long.
fn unlock(file: impl AsFd) {
    if let Err(error) = rustix::fs::flock(file, FlockOperation::Unlock) {
        log::debug!("unlocking: {error}");
    }
}

fn lock_held_by(file: &mut std::fs::File, path: &ManagedPath) -> HostError {
    let mut text = String::new();
    // The process ID is only for the message: its absence is no error.
    let read = file.take(16).read_to_string(&mut text);
    let pid = text.trim();
    let known = read.is_ok() && !pid.is_empty() && pid.chars().all(|c| c.is_ascii_digit());
    HostError::Locked { path: path.to_string(), holder: known.then(|| pid.to_owned()) }
}
