//! Makes many files durable at once: a flush mostly waits, and the kernel joins those that wait
//! together into one. The whole file system is never flushed: it holds the dirty pages of others,
//! who would wait for it as well.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::error::{HostError, Op};
use super::root::Root;
use crate::core::names::ManagedPath;

/// Flushes under way at the same time. More gain nothing on a disk with one queue, and each costs a
/// thread.
const AT_ONCE: usize = 32;

/// Stack of a thread that only opens and flushes, in bytes.
const STACK: usize = 128 << 10;

impl Root {
    /// Makes each of `paths` durable.
    pub(super) fn sync_each(&self, paths: &[Option<ManagedPath>]) -> Result<(), HostError> {
        if let [path] = paths {
            return self.sync_one(path.as_ref());
        }
        let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
        let work = || {
            while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(error) = self.sync_one(path.as_ref()) {
                    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                    failed.get_or_insert(error);
                    return;
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..paths.len().min(AT_ONCE) {
                let thread = std::thread::Builder::new().stack_size(STACK);
                // Where there are no more threads, those that there are do the work.
                if thread.spawn_scoped(scope, work).is_err() {
                    break;
                }
            }
            work();
        });
        let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        failed.map_or(Ok(()), Err)
    }

    fn sync_one(&self, path: Option<&ManagedPath>) -> Result<(), HostError> {
        let shown = path.map_or("/", ManagedPath::as_str);
        match self.open_to_flush(path) {
            Ok(file) => rustix::fs::fsync(file).map_err(|errno| HostError::new(Op::Sync, shown, errno)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
            Err(errno) => Err(HostError::new(Op::Sync, shown, errno)),
        }
    }

    fn open_to_flush(&self, path: Option<&ManagedPath>) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Some(path) = path else {
            return rustix::fs::openat(self.top()?, ".", flags, Mode::empty());
        };
        let parent = path.parent().map_or_else(|| self.top(), |parent| self.directory(&parent))?;
        match rustix::fs::openat(&parent, path.file_name(), flags, Mode::empty()) {
            // A directory may be reached by a link, as `/usr/local` is: its names are elsewhere then.
            Err(Errno::LOOP) => rustix::fs::openat(self.directory(path)?, ".", flags, Mode::empty()),
            opened => opened,
        }
    }
}
