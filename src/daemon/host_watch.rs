//! Events of the host, by inotify: managed files changed, force file created, blocked target released, boot
//! check finished.

use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::core::config::host_config::FORCE_FILE;
use crate::core::state::blocked::BLOCKED;
use crate::core::state::pending::PENDING;
use crate::daemon::managed_watch::ManagedWatch;
use crate::host::file_watch::{FileEvent, FileWatch};
use crate::transaction::state::status_files::BOOT_CHECK;

/// Change on the host that the daemon reacts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostEvent {
    /// Managed paths, or directories above them, changed, and it is time to verify them.
    FilesChanged,
    /// The force file was created.
    OperatorRequest,
    /// The blocked target was released, by an operator or by a job of the daemon.
    BlockReleased,
    /// The boot check published a report or ended.
    BootCheckChanged,
}

/// Inotify watches of the agent's own state files and of the managed paths.
#[derive(Debug)]
pub(super) struct HostWatch {
    own: FileWatch,
    managed: ManagedWatch,
}

impl HostWatch {
    /// Start to watch the agent's state files. Missing directories are created: inotify can only watch
    /// existing ones.
    pub(super) fn begin() -> io::Result<Self> {
        let mut own = FileWatch::new()?;
        for path in [FORCE_FILE, BLOCKED, PENDING, BOOT_CHECK.path].map(Path::new) {
            let directory = path.parent().unwrap_or(Path::new("/"));
            // The state may be secret; reports below /run are for everybody.
            let mode = if directory.starts_with("/run") { 0o755 } else { 0o700 };
            DirBuilder::new().recursive(true).mode(mode).create(directory)?;
            own.add(directory)?;
        }
        Ok(Self { own, managed: ManagedWatch::new() })
    }

    /// Watch these managed paths, which a verification compared that began at `since`.
    pub(super) fn manage(&mut self, paths: BTreeSet<PathBuf>, since: SystemTime) -> io::Result<()> {
        self.managed.manage(paths, since)
    }

    /// Wait for the next event. Cancel safe.
    pub(super) async fn next(&mut self) -> io::Result<HostEvent> {
        loop {
            tokio::select! {
                event = self.own.next() => {
                    if let Some(event) = of_own(event?) {
                        return Ok(event);
                    }
                }
                due = self.managed.next() => return due.map(|()| HostEvent::FilesChanged),
            }
        }
    }
}

fn of_own(event: FileEvent) -> Option<HostEvent> {
    match event {
        FileEvent::Changed(path) if path == Path::new(FORCE_FILE) => Some(HostEvent::OperatorRequest),
        FileEvent::Removed(path) if path == Path::new(BLOCKED) => Some(HostEvent::BlockReleased),
        FileEvent::Changed(path) if path == Path::new(BOOT_CHECK.path) => Some(HostEvent::BootCheckChanged),
        FileEvent::Removed(path) if path == Path::new(PENDING) => Some(HostEvent::BootCheckChanged),
        FileEvent::Overflow => Some(HostEvent::OperatorRequest),
        FileEvent::Changed(_) | FileEvent::Removed(_) => None,
    }
}
