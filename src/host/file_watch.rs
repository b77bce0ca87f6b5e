//! News of names in directories, by inotify(7): nothing is asked again and again.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use futures_lite::StreamExt as _;
use inotify::{EventMask, EventStream, Inotify, WatchDescriptor, WatchMask};

/// Room for so many bytes of events at a time.
const BUFFER: usize = 4096;

/// Directories that are watched.
#[derive(Debug)]
pub struct FileWatch {
    stream: EventStream<[u8; BUFFER]>,
    directories: HashMap<WatchDescriptor, PathBuf>,
}

/// What happened to a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileEvent {
    /// Something is there now, or it changed.
    Changed(PathBuf),
    /// It is gone.
    Removed(PathBuf),
    /// More happened than could be noted: anything may have changed.
    Overflow,
}

impl FileWatch {
    /// Watches nothing yet.
    pub fn new() -> io::Result<Self> {
        let stream = Inotify::init()?.into_event_stream([0; BUFFER])?;
        Ok(Self { stream, directories: HashMap::new() })
    }

    /// Watches the names in a directory as well. One that is watched already may be added again.
    pub fn add(&mut self, directory: &Path) -> io::Result<()> {
        let mask = WatchMask::CREATE
            | WatchMask::CLOSE_WRITE
            | WatchMask::MOVED_TO
            | WatchMask::MOVED_FROM
            | WatchMask::DELETE
            | WatchMask::ATTRIB
            | WatchMask::ONLYDIR;
        let descriptor = self.stream.watches().add(directory, mask)?;
        self.directories.insert(descriptor, directory.to_owned());
        Ok(())
    }

    /// What happened next. It may be dropped while it waits.
    pub async fn next(&mut self) -> io::Result<FileEvent> {
        loop {
            let Some(event) = self.stream.next().await else { return Ok(FileEvent::Overflow) };
            let event = event?;
            if event.mask.contains(EventMask::Q_OVERFLOW) {
                return Ok(FileEvent::Overflow);
            }
            if event.mask.contains(EventMask::IGNORED) {
                // The directory is gone, and so is everything in it.
                match self.directories.remove(&event.wd) {
                    Some(directory) => return Ok(FileEvent::Removed(directory)),
                    None => continue,
                }
            }
            let Some(directory) = self.directories.get(&event.wd) else { continue };
            let path = event.name.map_or_else(|| directory.clone(), |name| directory.join(name));
            let is_gone = event.mask.intersects(EventMask::DELETE | EventMask::MOVED_FROM);
            return Ok(if is_gone { FileEvent::Removed(path) } else { FileEvent::Changed(path) });
        }
    }
}
