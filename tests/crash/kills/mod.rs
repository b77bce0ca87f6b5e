//! `apply` and `recover` on a plain tree, killed with SIGKILL at every system call that changes something;
//! afterwards the tree is wholly the old generation or wholly the new one.
//!
//! These tests cover the death of the process, which undoes nothing that was done. [`crate::lying`] covers
//! power cuts, which also lose writes that were not flushed.

mod apply;
mod bench;
mod pair;
mod recover;
mod sanity;

use std::thread;

/// Panics if a precondition of these tests is missing.
fn require_all() {
    testbed::preconditions::require_root();
    testbed::preconditions::require_installed(&["systemctl"]);
    testbed::preconditions::require_strace();
}

/// Run `work` once for each processor, in parallel.
fn in_parallel(work: impl Fn() + Sync) {
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(&work);
        }
    });
}
