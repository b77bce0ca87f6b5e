//! `apply` and `recover` on a plain tree, killed with SIGKILL at every system call that changes something,
//! and then looked at from outside: the tree is wholly the old generation or wholly the new one.
//!
//! This covers the death of the process: what it did is there, what it did not do is not. What a power cut
//! takes back of what was done is another matter, and is played on a disk that forgets what was not flushed.

mod apply;
mod bench;
mod pair;
mod recover;
mod sanity;

use std::thread;

/// Fails where such tests cannot run.
fn require_all() {
    testbed::preconditions::require_root();
    testbed::preconditions::require_installed(&["systemctl"]);
    testbed::preconditions::require_strace();
}

/// Does it on every processor, until all are done.
fn in_parallel(work: impl Fn() + Sync) {
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(&work);
        }
    });
}
