//! Events of the host, by inotify: managed files changed, force file created, blocked target released, boot
//! check finished.

use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use tokio::time::Instant;

use crate::core::daemon::verification_delay::VerificationDelay;
use crate::core::state::blocked::BLOCKED;
use crate::core::state::pending::PENDING;
use crate::daemon::jobs::work::FORCE_FILE;
use crate::daemon::timers;
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
    managed: Option<FileWatch>,
    paths: BTreeSet<PathBuf>,
    delay: VerificationDelay,
    /// Start of the watch, from which the times of changes count.
    began: Instant,
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
        let delay = VerificationDelay::default();
        Ok(Self { own, managed: None, paths: BTreeSet::new(), delay, began: Instant::now() })
    }

    /// Replace the watched managed paths.
    pub(super) fn manage(&mut self, paths: BTreeSet<PathBuf>) -> io::Result<()> {
        if self.managed.is_some() && paths == self.paths {
            return Ok(());
        }
        let mut watch = FileWatch::new()?;
        for directory in paths.iter().filter_map(|path| path.parent()).collect::<BTreeSet<_>>() {
            // A missing directory is drift, which verification has found already.
            if directory.is_dir() {
                watch.add(directory)?;
            }
        }
        (self.managed, self.paths) = (Some(watch), paths);
        Ok(())
    }

    /// Wait for the next event. Cancel safe.
    pub(super) async fn next(&mut self) -> io::Result<HostEvent> {
        let Self { own, managed, paths, delay, began } = self;
        loop {
            let due = delay.due().map(|due| *began + due);
            tokio::select! {
                event = own.next() => {
                    if let Some(event) = of_own(event?) {
                        return Ok(event);
                    }
                }
                changed = changed_path(managed.as_mut(), paths) => {
                    delay.record(&changed?.to_string_lossy(), began.elapsed());
                }
                () = timers::until(due) => {
                    delay.finish(began.elapsed());
                    return Ok(HostEvent::FilesChanged);
                }
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

/// Waits for a change of a managed path or of a directory above one; empty if the kernel lost events.
async fn changed_path(watch: Option<&mut FileWatch>, paths: &BTreeSet<PathBuf>) -> io::Result<PathBuf> {
    let Some(watch) = watch else { return std::future::pending().await };
    loop {
        match watch.next().await? {
            FileEvent::Changed(path) | FileEvent::Removed(path) if is_concerned(&path, paths) => {
                return Ok(path);
            }
            FileEvent::Overflow => return Ok(PathBuf::new()),
            FileEvent::Changed(_) | FileEvent::Removed(_) => {}
        }
    }
}

/// Returns true if `path` is a managed path or a directory above one.
fn is_concerned(path: &Path, paths: &BTreeSet<PathBuf>) -> bool {
    paths.range(path.to_owned()..).next().is_some_and(|managed| managed.starts_with(path))
}
