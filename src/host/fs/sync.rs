//! Many acts at once, on as many files: a flush mostly waits, and the kernel joins those that wait
//! together into one; a removal waits where its blocks are discarded. The whole file system is never flushed: it holds the dirty pages of others,
//! who would wait for it as well.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::core::values::names::ManagedPath;
use crate::host::fs::error::{FileOperation, HostError};
use crate::host::fs::root::Root;

/// Acts under way at the same time. More gain nothing on a disk with one queue, and each costs a
/// thread.
const AT_ONCE: usize = 32;

/// Stack of a thread that does no more than a few system calls, in bytes.
const STACK: usize = 128 << 10;

/// Does `act` to each of `items`, many at a time, and ends at the first error.
pub(crate) fn at_once<T: Sync>(
    items: &[T],
    act: impl Fn(&T) -> Result<(), HostError> + Sync,
) -> Result<(), HostError> {
    if let [item] = items {
        return act(item);
    }
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
    let work = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = act(item) {
                // The others find nothing left to do.
                next.store(items.len(), Ordering::Relaxed);
                failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..items.len().min(AT_ONCE) {
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

impl Root {
    /// Makes what stands at `path` durable; the root itself where there is none.
    pub(crate) fn sync_one(&self, path: Option<&ManagedPath>) -> Result<(), HostError> {
        let shown = path.map_or("/", ManagedPath::as_str);
        match self.open_to_flush(path) {
            Ok(file) => {
                rustix::fs::fsync(file).map_err(|errno| HostError::new(FileOperation::Sync, shown, errno))
            }
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
            Err(errno) => Err(HostError::new(FileOperation::Sync, shown, errno)),
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
