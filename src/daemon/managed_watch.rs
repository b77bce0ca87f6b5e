//! Watch of the managed paths by inotify: tells when it is time to verify them.
//!
//! Watched are the directories that hold managed paths, and all directories above these: a directory that is removed
//! and created again, moved away, or missing at first is noticed by the one above it. What changes between the
//! beginning of a verification and the first watch of its paths is found by their times.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use crate::core::daemon::verification_delay::VerificationDelay;
use crate::core::values::causes::chain;
use crate::daemon::timers;
use crate::host::file_watch::{FileEvent, FileWatch};

/// Longest time by which the time of a change may lie before the change: file systems take the time of the last timer
/// interrupt.
const CLOCK_TICK: Duration = Duration::from_millis(10);

/// Watch of the managed paths and of the directories above them.
#[derive(Debug)]
pub(super) struct ManagedWatch {
    watch: Option<FileWatch>,
    paths: BTreeSet<PathBuf>,
    /// True if a directory above a managed path changed, or events were lost: directories may be other ones by now.
    is_stale: bool,
    delay: VerificationDelay,
    /// Start of the watch, from which the times of changes count.
    began: Instant,
}

/// Change of a managed path, or of a directory above one.
struct ManagedChange {
    path: PathBuf,
    is_above: bool,
}

impl ManagedWatch {
    pub(super) fn new() -> Self {
        Self {
            watch: None,
            paths: BTreeSet::new(),
            is_stale: false,
            delay: VerificationDelay::default(),
            began: Instant::now(),
        }
    }

    /// Watch these paths, which a verification that began at `since` found as they should be or as drift.
    pub(super) fn manage(&mut self, paths: BTreeSet<PathBuf>, since: SystemTime) -> io::Result<()> {
        if self.watch.is_some() && paths == self.paths {
            return Ok(());
        }
        self.watch = Some(watch_directories(&paths)?);
        (self.paths, self.is_stale) = (paths, false);
        let changed: Vec<_> = self.paths.iter().filter(|path| is_changed_since(path, since)).collect();
        for path in changed {
            self.delay.record(&path.to_string_lossy(), self.began.elapsed());
        }
        Ok(())
    }

    /// Watch the directories as they are now, unless they are still those of before.
    fn refresh(&mut self) {
        if !self.is_stale {
            return;
        }
        match watch_directories(&self.paths) {
            Ok(watch) => (self.watch, self.is_stale) = (Some(watch), false),
            Err(error) => log::warn!(
                "cannot watch the managed files again: {error}; drift may be detected at the next update only",
                error = chain(&error)
            ),
        }
    }

    /// Wait until it is time to verify the managed paths. Cancel safe.
    pub(super) async fn next(&mut self) -> io::Result<()> {
        loop {
            let due = self.delay.due().map(|due| self.began + due);
            tokio::select! {
                change = next_change(self.watch.as_mut(), &self.paths) => {
                    let change = change?;
                    self.is_stale |= change.is_above;
                    self.delay.record(&change.path.to_string_lossy(), self.began.elapsed());
                }
                () = timers::until(due) => {
                    self.delay.finish(self.began.elapsed());
                    // Before the verification: it finds what changed until now, and the watch what changes from now on.
                    self.refresh();
                    return Ok(());
                }
            }
        }
    }
}

/// Watch the directories that hold these paths, and all directories above them.
fn watch_directories(paths: &BTreeSet<PathBuf>) -> io::Result<FileWatch> {
    let mut watch = FileWatch::new()?;
    let holding: BTreeSet<&Path> = paths.iter().filter_map(|path| path.parent()).collect();
    let above = holding.iter().flat_map(|directory| directory.ancestors().skip(1));
    for directory in above.collect::<BTreeSet<&Path>>().difference(&holding) {
        unless_missing(watch.add_names(directory))?;
    }
    for directory in &holding {
        unless_missing(watch.add(directory))?;
    }
    Ok(watch)
}

/// Wait for a change of a managed path or of a directory above one. Cancel safe.
async fn next_change(watch: Option<&mut FileWatch>, paths: &BTreeSet<PathBuf>) -> io::Result<ManagedChange> {
    let Some(watch) = watch else { return std::future::pending().await };
    loop {
        match watch.next().await? {
            FileEvent::Changed(path) | FileEvent::Removed(path) => {
                let is_managed = paths.contains(&path);
                // Paths below a directory follow it in their order.
                let mut following = paths.range(path.clone()..).take(2);
                let is_above = following.any(|managed| *managed != path && managed.starts_with(&path));
                if is_managed || is_above {
                    return Ok(ManagedChange { path, is_above });
                }
            }
            FileEvent::Overflow => return Ok(ManagedChange { path: PathBuf::new(), is_above: true }),
        }
    }
}

/// A directory that does not exist is watched by the one above it.
fn unless_missing(added: io::Result<()>) -> io::Result<()> {
    match added {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(())
        }
        added => added,
    }
}

/// Return true if the file at `path` may have changed after `since`. A file that is missing was missing before, or its
/// directory tells.
fn is_changed_since(path: &Path, since: SystemTime) -> bool {
    let since = since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().saturating_sub(CLOCK_TICK);
    let is_after = |found: io::Result<Metadata>| found.is_ok_and(|found| changed_at(&found) >= since);
    let directory = path.parent().unwrap_or(Path::new("/"));
    is_after(path.symlink_metadata()) || (!path.exists() && is_after(directory.symlink_metadata()))
}

/// Return the time of the last change of contents, attributes or name, since 1970.
fn changed_at(found: &Metadata) -> Duration {
    let (seconds, nanoseconds) = (found.ctime(), found.ctime_nsec());
    let seconds = u64::try_from(seconds).unwrap_or_default();
    Duration::new(seconds, u32::try_from(nanoseconds).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Watch of these paths below a temporary directory, all of which exist.
    fn watch_of(paths: &[&str]) -> (tempfile::TempDir, ManagedWatch) {
        let top = tempfile::tempdir().unwrap();
        for path in paths {
            put(&top.path().join(path));
        }
        let mut watch = ManagedWatch::new();
        let paths = paths.iter().map(|path| top.path().join(path)).collect();
        watch.manage(paths, SystemTime::now() + CLOCK_TICK * 2).unwrap();
        (top, watch)
    }

    fn put(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "contents").unwrap();
    }

    async fn is_told(watch: &mut ManagedWatch) -> bool {
        tokio::time::timeout(Duration::from_secs(60), watch.next()).await.is_ok_and(|told| told.is_ok())
    }

    #[tokio::test]
    async fn directory_that_was_created_again_is_watched_again() {
        let (top, mut watch) = watch_of(&["a/b/file", "a/b/other"]);
        for directory in ["a/b", "a"] {
            fs::remove_dir_all(top.path().join(directory)).unwrap();
            put(&top.path().join("a/b/file"));
            put(&top.path().join("a/b/other"));
            assert!(is_told(&mut watch).await, "{directory} was created again");
            fs::write(top.path().join("a/b/file"), "drift").unwrap();
            assert!(is_told(&mut watch).await, "drift in the new {directory}");
        }
    }

    #[tokio::test]
    async fn directory_that_took_the_place_of_another_is_watched() {
        let (top, mut watch) = watch_of(&["a/b/file"]);
        put(&top.path().join("new/b/file"));
        fs::rename(top.path().join("a"), top.path().join("old")).unwrap();
        fs::rename(top.path().join("new"), top.path().join("a")).unwrap();
        assert!(is_told(&mut watch).await);
        fs::write(top.path().join("a/b/file"), "drift").unwrap();
        assert!(is_told(&mut watch).await);
    }

    #[tokio::test]
    async fn path_whose_directories_are_missing_at_first_is_noticed() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().join("a/b/c/file");
        let mut watch = ManagedWatch::new();
        watch.manage([path.clone()].into(), SystemTime::now() + CLOCK_TICK * 2).unwrap();
        put(&path);
        assert!(is_told(&mut watch).await);
        fs::write(&path, "drift").unwrap();
        assert!(is_told(&mut watch).await);
    }

    #[tokio::test]
    async fn change_before_the_first_watch_is_found_by_its_time() {
        let top = tempfile::tempdir().unwrap();
        let paths: Vec<_> = ["file", "removed"].map(|name| top.path().join(name)).into();
        for path in &paths {
            put(path);
        }
        let since = SystemTime::now();
        fs::remove_file(&paths[1]).unwrap();
        let mut watch = ManagedWatch::new();
        watch.manage(paths.iter().cloned().collect(), since).unwrap();
        assert!(is_told(&mut watch).await);
    }

    #[tokio::test]
    async fn ten_thousand_events_lead_to_a_handful_of_verifications() {
        let (top, mut watch) = watch_of(&["a/file", "b/c/other"]);
        let file = top.path().join("a/file");
        let writer = std::thread::spawn(move || {
            for number in 0..10_000 {
                fs::write(&file, number.to_string()).unwrap();
                fs::write(file.with_extension(number.to_string()), "").unwrap();
            }
        });
        let mut verifications = 0;
        while !writer.is_finished() {
            assert!(is_told(&mut watch).await);
            verifications += 1;
        }
        writer.join().unwrap();
        assert!(verifications <= 5, "{verifications}");
        // Whether or not events were lost, the next change is noticed.
        fs::write(top.path().join("b/c/other"), "drift").unwrap();
        assert!(is_told(&mut watch).await);
    }
}
