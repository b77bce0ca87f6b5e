//! A neighbour on the same file system that appends and flushes, as etcd does with its log.

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

/// A thread that appends 4 KiB and flushes every 20 ms, until its latencies are read.
#[derive(Debug)]
pub struct FlushingNeighbour {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<std::io::Result<Vec<Duration>>>>,
}

impl FlushingNeighbour {
    /// Start the thread on a new file in `directory`.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn start(directory: &Path) -> Result<Self> {
        let path = directory.join("neighbour.log");
        let file = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::spawn(move || append(file, &seen));
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Stop the thread after its current flush and return the duration of each flush.
    ///
    /// # Errors
    /// A write or flush failed.
    pub fn latencies(mut self) -> Result<Vec<Duration>> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().context("the neighbour is already stopped")?;
        let latencies = thread.join().map_err(|_| anyhow!("the neighbour's thread panicked"))?;
        latencies.context("writing the neighbour's file")
    }
}

impl Drop for FlushingNeighbour {
    /// Stop the thread after an error too: it must end before its directory is removed.
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
    fn neighbour_appends_until_its_latencies_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let neighbour = FlushingNeighbour::start(directory.path()).unwrap();
        let file = directory.path().join("neighbour.log");
        while file.metadata().unwrap().len() == 0 {
            std::thread::yield_now();
        }
        let latencies = neighbour.latencies().unwrap();
        assert_eq!(latencies.len() as u64 * 4096, file.metadata().unwrap().len());
    }
}
