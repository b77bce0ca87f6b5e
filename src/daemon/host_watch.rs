//! Events of the host, by inotify: managed files changed, force file created, blocked target released, boot
//! check finished.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use crate::core::state::blocked::BLOCKED;
use crate::core::state::pending::PENDING;
use crate::daemon::work::FORCE_FILE;
use crate::host::file_watch::{FileEvent, FileWatch};
use crate::transaction::state::status_files::BOOT_CHECK;

/// Change on the host that the daemon reacts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostEvent {
    /// A managed path, or a directory above it, changed.
    FilesChanged,
    /// The force file was created, or the blocked target was released.
    OperatorRequest,
    /// The boot check published a report or ended.
    BootCheckChanged,
}

/// Inotify watches of the agent's own state files and of the managed paths.
#[derive(Debug)]
pub(super) struct HostWatch {
    own: FileWatch,
    managed: Option<FileWatch>,
    paths: BTreeSet<PathBuf>,
}

impl HostWatch {
    /// Start to watch the agent's state files. Missing directories are created: inotify can only watch
    /// existing ones.
    pub(super) fn begin() -> io::Result<Self> {
        let mut own = FileWatch::new()?;
        for path in [FORCE_FILE, BLOCKED, PENDING, BOOT_CHECK.path].map(Path::new) {
            let directory = path.parent().unwrap_or(Path::new("/"));
            std::fs::create_dir_all(directory)?;
            own.add(directory)?;
        }
        Ok(Self { own, managed: None, paths: BTreeSet::new() })
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
        let Self { own, managed, paths } = self;
        loop {
            let event = tokio::select! {
                event = own.next() => of_own(event?),
                event = of_managed(managed.as_mut(), paths) => Some(event?),
            };
            if let Some(event) = event {
                return Ok(event);
            }
        }
    }
}

fn of_own(event: FileEvent) -> Option<HostEvent> {
    match event {
        FileEvent::Changed(path) if path == Path::new(FORCE_FILE) => Some(HostEvent::OperatorRequest),
        FileEvent::Removed(path) if path == Path::new(BLOCKED) => Some(HostEvent::OperatorRequest),
        FileEvent::Changed(path) if path == Path::new(BOOT_CHECK.path) => Some(HostEvent::BootCheckChanged),
        FileEvent::Removed(path) if path == Path::new(PENDING) => Some(HostEvent::BootCheckChanged),
        FileEvent::Overflow => Some(HostEvent::OperatorRequest),
        FileEvent::Changed(_) | FileEvent::Removed(_) => None,
    }
}

async fn of_managed(watch: Option<&mut FileWatch>, paths: &BTreeSet<PathBuf>) -> io::Result<HostEvent> {
    let Some(watch) = watch else { return std::future::pending().await };
    loop {
        match watch.next().await? {
            FileEvent::Changed(path) | FileEvent::Removed(path) if is_concerned(&path, paths) => {
                return Ok(HostEvent::FilesChanged);
            }
            FileEvent::Overflow => return Ok(HostEvent::FilesChanged),
            FileEvent::Changed(_) | FileEvent::Removed(_) => {}
        }
    }
}

/// Returns true if `path` is a managed path or a directory above one.
fn is_concerned(path: &Path, paths: &BTreeSet<PathBuf>) -> bool {
    paths.range(path.to_owned()..).next().is_some_and(|managed| managed.starts_with(path))
}
