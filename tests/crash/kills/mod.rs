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

/// Whether such tests can run here; says why where they cannot.
fn is_possible() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("SKIPPED: only root can give files to their owners");
    }
    let systemctl = std::process::Command::new("systemctl").arg("--version").output().is_ok();
    if !systemctl {
        eprintln!("SKIPPED: there is no systemctl to say what is enabled");
    }
    root && systemctl && testbed::strace::is_permitted()
}

/// Does it on every processor, until all are done.
fn in_parallel(work: impl Fn() + Sync) {
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(&work);
        }
    });
}
