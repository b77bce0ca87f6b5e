//! Change events of files in watched directories, with inotify(7) instead of polling.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use futures_lite::StreamExt as _;
use inotify::{EventMask, EventStream, Inotify, WatchDescriptor, WatchMask};

/// Buffer size for events, in bytes.
const BUFFER: usize = 4096;

/// Events of names in a directory.
const NAMES: WatchMask = WatchMask::CREATE
    .union(WatchMask::MOVED_TO)
    .union(WatchMask::MOVED_FROM)
    .union(WatchMask::DELETE)
    .union(WatchMask::ONLYDIR);

/// Set of watched directories.
#[derive(Debug)]
pub struct FileWatch {
    stream: EventStream<[u8; BUFFER]>,
    directories: HashMap<WatchDescriptor, PathBuf>,
}

/// Change of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileEvent {
    /// Created, replaced, modified, or changed in owner or mode.
    Changed(PathBuf),
    /// Removed or renamed.
    Removed(PathBuf),
    /// Events were lost: any watched path may have changed.
    Overflow,
}

impl FileWatch {
    /// Create a watch without directories.
    pub fn new() -> io::Result<Self> {
        let stream = Inotify::init()?.into_event_stream([0; BUFFER])?;
        Ok(Self { stream, directories: HashMap::new() })
    }

    /// Watch the entries of a directory. Adding a directory twice is allowed.
    pub fn add(&mut self, directory: &Path) -> io::Result<()> {
        self.add_with(directory, NAMES | WatchMask::CLOSE_WRITE | WatchMask::ATTRIB)
    }

    /// Watch the names in a directory: entries that come and go, whatever changes in them.
    pub fn add_names(&mut self, directory: &Path) -> io::Result<()> {
        self.add_with(directory, NAMES)
    }

    fn add_with(&mut self, directory: &Path, mask: WatchMask) -> io::Result<()> {
        let descriptor = self.stream.watches().add(directory, mask)?;
        self.directories.insert(descriptor, directory.to_owned());
        Ok(())
    }

    /// Wait for the next event. Cancel safe.
    pub async fn next(&mut self) -> io::Result<FileEvent> {
        loop {
            let Some(event) = self.stream.next().await else { return Ok(FileEvent::Overflow) };
            let event = event?;
            if event.mask.contains(EventMask::Q_OVERFLOW) {
                return Ok(FileEvent::Overflow);
            }
            if event.mask.contains(EventMask::IGNORED) {
                // The directory was removed, and its entries with it.
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
