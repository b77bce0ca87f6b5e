//! What happens on the host itself that the daemon has to know of, by inotify.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use crate::core::state::blocked::HELD;
use crate::core::state::pending::PENDING;
use crate::host::file_watch::{FileEvent, FileWatch};
use crate::transaction::state::status_files::HEALTH;

use crate::daemon::work::FORCE;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostNews {
    /// Something that is managed was touched.
    Managed,
    /// Somebody wants what is wanted forced, or what is held released.
    Asked,
    /// What runs was judged, or something was said about it.
    Judged,
}

/// Watches for it.
#[derive(Debug)]
pub(super) struct HostWatch {
    own: FileWatch,
    managed: Option<FileWatch>,
    paths: BTreeSet<PathBuf>,
}

impl HostWatch {
    /// Begins. Directories of our own are made where they are missing: what is to appear in them is waited for.
    pub(super) fn begin() -> io::Result<Self> {
        let mut own = FileWatch::new()?;
        for path in [FORCE, HELD, PENDING, HEALTH.path].map(Path::new) {
            let directory = path.parent().unwrap_or(Path::new("/"));
            std::fs::create_dir_all(directory)?;
            own.add(directory)?;
        }
        Ok(Self { own, managed: None, paths: BTreeSet::new() })
    }

    /// Watches these paths from now on, in place of those before.
    pub(super) fn manage(&mut self, paths: BTreeSet<PathBuf>) -> io::Result<()> {
        if self.managed.is_some() && paths == self.paths {
            return Ok(());
        }
        let mut watch = FileWatch::new()?;
        for directory in paths.iter().filter_map(|path| path.parent()).collect::<BTreeSet<_>>() {
            // One that is missing is a deviation that was found already.
            if directory.is_dir() {
                watch.add(directory)?;
            }
        }
        (self.managed, self.paths) = (Some(watch), paths);
        Ok(())
    }

    /// What happened next. It may be dropped while it waits.
    pub(super) async fn next(&mut self) -> io::Result<HostNews> {
        let Self { own, managed, paths } = self;
        loop {
            let news = tokio::select! {
                news = own.next() => of_own(news?),
                news = of_managed(managed.as_mut(), paths) => Some(news?),
            };
            if let Some(news) = news {
                return Ok(news);
            }
        }
    }
}

fn of_own(news: FileEvent) -> Option<HostNews> {
    match news {
        FileEvent::Changed(path) if path == Path::new(FORCE) => Some(HostNews::Asked),
        FileEvent::Removed(path) if path == Path::new(HELD) => Some(HostNews::Asked),
        FileEvent::Changed(path) if path == Path::new(HEALTH.path) => Some(HostNews::Judged),
        FileEvent::Removed(path) if path == Path::new(PENDING) => Some(HostNews::Judged),
        FileEvent::Overflow => Some(HostNews::Asked),
        FileEvent::Changed(_) | FileEvent::Removed(_) => None,
    }
}

async fn of_managed(watch: Option<&mut FileWatch>, paths: &BTreeSet<PathBuf>) -> io::Result<HostNews> {
    let Some(watch) = watch else { return std::future::pending().await };
    loop {
        match watch.next().await? {
            FileEvent::Changed(path) | FileEvent::Removed(path) if is_concerned(&path, paths) => {
                return Ok(HostNews::Managed);
            }
            FileEvent::Overflow => return Ok(HostNews::Managed),
            FileEvent::Changed(_) | FileEvent::Removed(_) => {}
        }
    }
}

/// Whether a managed path is it, or lies below it.
fn is_concerned(path: &Path, paths: &BTreeSet<PathBuf>) -> bool {
    paths.range(path.to_owned()..).next().is_some_and(|managed| managed.starts_with(path))
}
