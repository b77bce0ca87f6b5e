//! Parallel file operations. An fsync mostly waits, and the kernel merges concurrent ones into one disk
//! flush; a removal waits if its blocks are discarded. The whole file system is never synced (syncfs): that
//! would write other programs' dirty pages too, and make those programs wait.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::core::values::names::ManagedPath;
use crate::host::fs::error::{FileOperation, HostError};
use crate::host::fs::root::Root;

/// Number of concurrent operations. More gain nothing on a disk with one queue, and each costs a thread.
const AT_ONCE: usize = 32;

/// Stack size in bytes of a thread that makes a few system calls.
const STACK: usize = 128 << 10;

/// Call `act` on each of `items` in parallel, as [`alongside`] does.
pub(crate) fn at_once<T: Sync>(
    items: &[T],
    act: impl Fn(&T) -> Result<(), HostError> + Sync,
) -> Result<(), HostError> {
    alongside(|pass_on| items.iter().for_each(pass_on), act)
}

/// Call `act` on each item that `produce` passes on, in parallel, while `produce` goes on. Stops at an error, and returns
/// that of the first item in order that failed, so that the same disk always gives the same error.
pub(crate) fn alongside<T: Send>(
    produce: impl FnOnce(&mut dyn FnMut(T)),
    act: impl Fn(T) -> Result<(), HostError> + Sync,
) -> Result<(), HostError> {
    let (sender, queue) = mpsc::channel::<(usize, T)>();
    let (queue, failed) = (Mutex::new(queue), Mutex::new(None::<(usize, HostError)>));
    let work = || {
        loop {
            let next = lock(&queue).recv();
            let Ok((number, item)) = next else { return };
            // Items are received in order: all before a failed one have been started.
            if lock(&failed).is_some() {
                continue;
            }
            if let Err(error) = act(item) {
                let mut failed = lock(&failed);
                if failed.as_ref().is_none_or(|(earliest, _)| number < *earliest) {
                    *failed = Some((number, error));
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let (mut number, mut threads) = (0, 1);
        produce(&mut |item| {
            // If no more threads can be created, the existing ones do all the work.
            if number > 0 && threads < AT_ONCE {
                let thread = std::thread::Builder::new().stack_size(STACK);
                threads = thread.spawn_scoped(scope, work).map_or(AT_ONCE, |_| threads + 1);
            }
            // Cannot fail: the queue outlives its sender.
            let _ = sender.send((number, item));
            number += 1;
        });
        drop(sender);
        work();
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    failed.map_or(Ok(()), |(_, error)| Err(error))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Root {
    /// Sync the file or directory at `path`; the root directory without one.
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
            // A directory may be reached through a link, as `/usr/local` is: the entries to sync are in the
            // link's target.
            Err(Errno::LOOP) => rustix::fs::openat(self.directory(path)?, ".", flags, Mode::empty()),
            opened => opened,
        }
    }
}
