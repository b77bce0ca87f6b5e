//! Lock of the account files that `useradd`, `passwd` and systemd-sysusers take before they read and replace
//! one: lckpwdf(3) of glibc.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::core::values::names::ManagedPath;
use crate::core::values::paths::SHADOW;
use crate::host::fs::error::{FileOperation, HostError};
use crate::host::fs::root::Root;

/// Lock file of lckpwdf(3). Never removed.
const LOCK: &str = "/etc/.pwd.lock";
/// Files that the lock protects.
const ACCOUNT_FILES: [&str; 4] = ["/etc/passwd", "/etc/group", SHADOW, "/etc/gshadow"];
/// Time limit of lckpwdf(3).
const TIMEOUT: Duration = Duration::from_secs(15);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Return true if other programs change the file at `path` under the lock.
pub(crate) fn is_account_file(path: &ManagedPath) -> bool {
    ACCOUNT_FILES.contains(&path.as_str())
}

/// Proof that no other program changes the account files. Dropping it releases the lock. Not to be taken
/// twice: the lock belongs to the process, which loses it when either proof is dropped.
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct AccountLock {
    _file: Option<OwnedFd>,
}

impl AccountLock {
    /// The proof for a tree that no other program can see, which has no lock.
    pub fn unshared() -> Self {
        Self { _file: None }
    }

    /// Take the lock of `root`, and wait as long for it as lckpwdf(3) does.
    pub(crate) fn take(root: &Root) -> Result<Self, HostError> {
        let path = ManagedPath::constant(LOCK);
        let failed = |errno| HostError::new(FileOperation::Lock, LOCK, errno);
        let parent = root.parent(&path, FileOperation::Lock)?;
        // Not blocking: a named pipe in its place would wait for a reader.
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file =
            rustix::fs::openat(&parent, path.file_name(), flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
        let end = Instant::now() + TIMEOUT;
        loop {
            match rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self { _file: Some(file) }),
                Err(Errno::AGAIN | Errno::ACCESS) if Instant::now() < end => {
                    std::thread::sleep(POLL_INTERVAL);
                }
                Err(Errno::AGAIN | Errno::ACCESS) => {
                    return Err(HostError::AccountsLocked { path: LOCK.to_owned() });
                }
                Err(errno) => return Err(failed(errno)),
            }
        }
    }
}
