//! Blobs that are fetched before the importer asks for them, some at a time.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::fcntl_setpipe_size;
use serde_json::Value;

use super::blob_file::BlobFile;
use super::skopeo_proxy::SkopeoProxy;
use super::{FetchPlan, PlannedBlob};

/// Pause of a transfer after which skopeo is asked for its result: skopeo leaves the pipe of a failed transfer open
/// until it is asked, and answers nothing else until the transfer has ended.
const PAUSE: Duration = Duration::from_secs(5);
const BUFFER: usize = 256 * 1024;
/// Size of a pipe, in bytes: the largest that every user may set.
const PIPE: usize = 1024 * 1024;

/// Blobs of one image.
#[derive(Debug)]
pub(super) struct BlobQueue {
    skopeo: Arc<SkopeoProxy>,
    /// Number of the image, from the importer's requests.
    image: Value,
    /// Directory for the blobs' files.
    directory: File,
    /// Pipe for the numbers of bytes received.
    counts: File,
    blobs: Mutex<QueuedBlobs>,
}

#[derive(Debug, Default)]
struct QueuedBlobs {
    waiting: VecDeque<PlannedBlob>,
    started: HashMap<String, Arc<BlobFile>>,
}

/// Make a pipe larger, so that its ends wait for each other less often. A smaller one works as well.
pub(super) fn enlarge(pipe: impl AsFd) {
    let _ = fcntl_setpipe_size(pipe, PIPE);
}

/// Reason for which reading of a pipe ended.
#[derive(Debug, PartialEq, Eq)]
enum PipeState {
    /// All expected bytes have been read.
    Complete,
    Closed,
    Paused,
}

impl BlobQueue {
    /// Start to fetch.
    pub(super) fn start(
        skopeo: Arc<SkopeoProxy>,
        image: Value,
        plan: FetchPlan,
        directory: File,
        counts: File,
    ) -> Arc<Self> {
        let queued = QueuedBlobs { waiting: plan.blobs.into(), started: HashMap::new() };
        let queue = Arc::new(Self { skopeo, image, directory, counts, blobs: Mutex::new(queued) });
        for _ in 0..plan.at_a_time {
            // Taken here: the importer asks for the first ones at once.
            let Some(first) = queue.next() else { break };
            let queue = Arc::clone(&queue);
            std::thread::spawn(move || queue.fetch_all(first));
        }
        queue
    }

    /// Take a blob that is being fetched, or has been. `None`: the importer has to ask skopeo for it.
    pub(super) fn take(&self, digest: &str) -> Option<Arc<BlobFile>> {
        let mut blobs = self.blobs();
        blobs.waiting.retain(|blob| blob.digest != digest);
        // Skopeo may have more success when it fetches one at a time.
        blobs.started.remove(digest).filter(|blob| !blob.has_failed())
    }

    fn fetch_all(&self, first: Arc<BlobFile>) {
        let mut next = Some(first);
        while let Some(blob) = next {
            let outcome = self.fetch(&blob);
            blob.finish(outcome.map_err(|error| format!("blob {}: {error}", blob.blob.digest)));
            next = self.next();
        }
    }

    /// Begin with the next blob. One that cannot be stored is left to the importer, as are the ones after it.
    fn next(&self) -> Option<Arc<BlobFile>> {
        let mut blobs = self.blobs();
        let blob = blobs.waiting.pop_front()?;
        let file = Arc::new(BlobFile::create(blob, &self.directory).ok()?);
        blobs.started.insert(file.blob.digest.clone(), Arc::clone(&file));
        Some(file)
    }

    fn fetch(&self, blob: &BlobFile) -> Result<(), String> {
        let wanted = vec![self.image.clone(), blob.blob.digest.clone().into(), blob.blob.size.into()];
        let (number, pipe) = self.skopeo.call("GetBlob", wanted)?.ok_or("skopeo sent no pipe")?;
        let transferred = self.transfer(pipe, number, blob);
        transferred.and_then(|()| {
            let (size, written) = (blob.blob.size, blob.written());
            (size == written).then_some(()).ok_or(format!("unexpected EOF after {written} of {size} bytes"))
        })
    }

    fn transfer(&self, pipe: OwnedFd, number: u32, blob: &BlobFile) -> Result<(), String> {
        enlarge(&pipe);
        let mut pipe = File::from(pipe);
        let stored = self.read(&mut pipe, blob, Some(PAUSE));
        let finish = || self.skopeo.call("FinishPipe", vec![number.into()]).map(drop);
        let Ok(state) = stored else {
            // Skopeo cannot write to a closed pipe, so that its transfer ends.
            drop(pipe);
            return finish().and(stored.map(drop).map_err(|error| format!("storing it: {error}")));
        };
        if state == PipeState::Closed {
            return finish();
        }
        // Skopeo answers when it has written everything.
        std::thread::scope(|scope| {
            let finishing = scope.spawn(finish);
            let rest = self.read(&mut pipe, blob, None);
            drop(pipe);
            let finished = finishing.join().unwrap_or_else(|_| Err("its thread ended early".to_owned()));
            rest.map_err(|error| format!("storing it: {error}")).and(finished)
        })
    }

    /// Store the bytes from the pipe: to the expected size or a pause, or else to its end.
    fn read(&self, pipe: &mut File, blob: &BlobFile, pause: Option<Duration>) -> std::io::Result<PipeState> {
        let mut buffer = vec![0; BUFFER];
        loop {
            if let Some(pause) = pause {
                if blob.written() >= blob.blob.size {
                    return Ok(PipeState::Complete);
                }
                let pause = Timespec::try_from(pause).map_err(std::io::Error::other)?;
                if poll(&mut [PollFd::new(&*pipe, PollFlags::IN)], Some(&pause))? == 0 {
                    return Ok(PipeState::Paused);
                }
            }
            let read = pipe.read(&mut buffer)?;
            let bytes = buffer.get(..read).unwrap_or_default();
            if bytes.is_empty() {
                return Ok(PipeState::Closed);
            }
            // Of a blob that is too long, skopeo reports the size.
            let missing = blob.blob.size.saturating_sub(blob.written());
            let kept = usize::try_from(missing).unwrap_or(read).min(read);
            blob.append(bytes.get(..kept).unwrap_or_default())?;
            // The importer may have ended.
            let _ = (&self.counts).write_all(&(read as u64).to_le_bytes());
        }
    }

    fn blobs(&self) -> MutexGuard<'_, QueuedBlobs> {
        self.blobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
