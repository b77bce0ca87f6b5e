//! A program on the same file system whose flushes must not wait: what etcd's log does, in small.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

const APPENDED: [u8; 4096] = [0x5a; 4096];
const PAUSE: Duration = Duration::from_millis(20);

/// Appends 4 KiB and flushes, every 20 ms, until it is asked how that went.
#[derive(Debug)]
pub struct Neighbour {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<std::io::Result<Vec<Duration>>>>,
}

impl Neighbour {
    /// Starts in a file of its own in `directory`.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn start(directory: &Path) -> Result<Self> {
        let path = directory.join("neighbour.log");
        let file = File::create(&path).with_context(|| format!("making {}", path.display()))?;
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::spawn(move || append(file, &seen));
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Stops it after the flush that it is at; how long each flush took.
    ///
    /// # Errors
    /// Writing has failed.
    pub fn latencies(mut self) -> Result<Vec<Duration>> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().context("the neighbour was stopped already")?;
        let latencies = thread.join().map_err(|_| anyhow!("the neighbour's thread has panicked"))?;
        latencies.context("writing the neighbour's file")
    }
}

impl Drop for Neighbour {
    /// After an error nobody asks; the thread must still end before its directory goes.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn append(mut file: File, stop: &AtomicBool) -> std::io::Result<Vec<Duration>> {
    let mut latencies = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        file.write_all(&APPENDED)?;
        let start = Instant::now();
        file.sync_all()?;
        latencies.push(start.elapsed());
        std::thread::sleep(PAUSE);
    }
    Ok(latencies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_appends_until_it_is_asked() {
        let directory = tempfile::tempdir().unwrap();
        let neighbour = Neighbour::start(directory.path()).unwrap();
        let file = directory.path().join("neighbour.log");
        while file.metadata().unwrap().len() == 0 {
            std::thread::yield_now();
        }
        let latencies = neighbour.latencies().unwrap();
        assert_eq!(latencies.len() as u64 * 4096, file.metadata().unwrap().len());
    }
}
