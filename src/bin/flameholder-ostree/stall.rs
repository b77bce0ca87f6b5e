//! End of a fetch that stalls: a registry or proxy can stop in the middle of a layer and keep the connection open for
//! ever.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use flameholder::os::worker::FETCH_TIMEOUT;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::sleep;

/// Time in which at least [`LEAST_RATE`] has to be kept on average, unless [`FETCH_TIMEOUT`] sets another.
const WINDOW: Duration = Duration::from_secs(300);
/// Bytes per second.
const LEAST_RATE: u64 = 1024;

/// A fetch that transferred too little in the last window.
#[derive(Debug, thiserror::Error)]
#[error("less than {} bytes arrived within {} seconds", LEAST_RATE * .0.as_secs(), .0.as_secs())]
pub(crate) struct FetchStalled(Duration);

/// Count of the bytes that a fetch has received, shared with those who count them.
#[derive(Debug, Clone, Default)]
pub(crate) struct ByteCount(Arc<AtomicU64>);

impl ByteCount {
    pub(crate) fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Set the count to a greater value.
    pub(crate) fn raise_to(&self, bytes: u64) {
        self.0.fetch_max(bytes, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Complete once the fetch stalls that counts into all of `counts`: none of them rises.
pub(crate) async fn stalled<const N: usize>(counts: [&ByteCount; N]) -> FetchStalled {
    let window = window();
    let mut before = counts.map(ByteCount::get);
    loop {
        sleep(window).await;
        let now = counts.map(ByteCount::get);
        let mut risen = now.iter().zip(&before).map(|(now, before)| now - before);
        if risen.all(|bytes| bytes < LEAST_RATE * window.as_secs()) {
            return FetchStalled(window);
        }
        before = now;
    }
}

/// Run a request to a registry that transfers little, such as for a manifest.
pub(crate) async fn within_window<T>(request: impl Future<Output = T>) -> Result<T, FetchStalled> {
    let window = window();
    tokio::time::timeout(window, request).await.map_err(|_| FetchStalled(window))
}

fn window() -> Duration {
    let seconds = std::env::var(FETCH_TIMEOUT).ok().and_then(|text| text.parse().ok());
    seconds.filter(|seconds| *seconds > 0).map_or(WINDOW, Duration::from_secs)
}

/// Reader that counts the bytes read.
#[derive(Debug)]
pub(crate) struct CountingReader<R> {
    reader: R,
    received: ByteCount,
}

impl<R> CountingReader<R> {
    pub(crate) fn new(reader: R, received: ByteCount) -> Self {
        Self { reader, received }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for CountingReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.reader).poll_read(context, buffer);
        let read = buffer.filled().len() - before;
        self.received.add(u64::try_from(read).unwrap_or_default());
        polled
    }
}
