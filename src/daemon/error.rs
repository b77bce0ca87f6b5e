//! Fatal errors of the daemon.

use std::io;

use crate::host::HostError;

/// Fatal error of the daemon.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The kernel refused an inotify watch, a signal handler or the event loop.
    #[error(
        "setting up inotify watches and signal handlers; if inotify limits are reached, raise fs.inotify.max_user_instances and fs.inotify.max_user_watches"
    )]
    Watch(#[source] io::Error),
    /// The task of the source ended, which it does only after an error.
    #[error("the source of the desired config ended; see the log")]
    SourceEnded,
    /// The lock of the daemon cannot be taken, or another daemon holds it.
    #[error("a host runs one daemon at a time; see `systemctl status flameholder-daemon.service`")]
    Lock(#[source] HostError),
}
