//! Configs with contents that they name by URL and hash: all of them are there before anything else happens.

use std::time::Duration;

use tokio::time::Instant;

use super::contents_cache::ContentsCache;
use crate::core::config::ignition::remote_contents::{
    RemoteContents, RemoteFault, RemoteSource, UnresolvedConfig,
};
use crate::core::values::causes::chain;
use crate::host::{HostError, Root};
use crate::https::{HttpsError, fetch_contents};

/// Longest time until all contents of a config are there.
const LIMIT: Duration = Duration::from_secs(600);

/// Failure to get contents that a config names. The text names the URL without its query, and their file or unit.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("the contents of {purpose} cannot be fetched from {url}")]
    Fetch {
        /// Path of a file, or field of a config.
        purpose: String,
        url: String,
        #[source]
        source: HttpsError,
    },
    #[error("what {url} sends for {purpose} is refused")]
    Refused {
        purpose: String,
        url: String,
        #[source]
        source: RemoteFault,
    },
    #[error("the contents of {purpose} cannot be kept until they are applied")]
    Keep {
        purpose: String,
        #[source]
        source: HostError,
    },
}

impl FetchError {
    /// Time after which the server wants to be asked again.
    #[must_use]
    pub fn retry_after(&self) -> Duration {
        match self {
            Self::Fetch { source, .. } => source.retry_after(),
            Self::Refused { .. } | Self::Keep { .. } => Duration::ZERO,
        }
    }
}

/// Fetches contents, or finds them in the cache.
#[derive(Debug)]
pub struct ContentsFetcher {
    cache: ContentsCache,
    /// True if the cache gets fetched contents, and loses those that no config names.
    keeps: bool,
}

impl ContentsFetcher {
    /// Create a fetcher that changes nothing on the disk.
    #[must_use]
    pub fn reading(root: Root) -> Self {
        Self { cache: ContentsCache::of(root), keeps: false }
    }

    /// Create a fetcher that changes the cache.
    #[must_use]
    pub fn keeping(root: Root) -> Self {
        Self { cache: ContentsCache::of(root), keeps: true }
    }

    /// Call `read` with more and more contents until it names no others, or refuses the config.
    pub async fn read<T, E>(
        &self,
        read: impl Fn(&RemoteContents) -> Result<T, UnresolvedConfig<E>>,
    ) -> Result<Result<T, E>, FetchError> {
        let end = Instant::now() + LIMIT;
        let mut contents = RemoteContents::default();
        loop {
            let unfetched = match read(&contents) {
                Ok(config) => {
                    self.forget_others(&contents);
                    return Ok(Ok(config));
                }
                Err(UnresolvedConfig::Refused(error)) => return Ok(Err(error)),
                Err(UnresolvedConfig::Unfetched(unfetched)) => unfetched,
            };
            for source in unfetched {
                let found = match self.cache.load(&source.hash) {
                    Some(found) => found,
                    None => self.fetched(&source, contents.left(), end).await?,
                };
                contents.insert(source.hash, found);
            }
        }
    }

    /// Call `read` like [`Self::read`], and ask no server.
    pub fn read_cached<T, E>(
        &self,
        read: impl Fn(&RemoteContents) -> Result<T, UnresolvedConfig<E>>,
    ) -> Result<T, UnresolvedConfig<E>> {
        let mut contents = RemoteContents::default();
        loop {
            let unfetched = match read(&contents) {
                Err(UnresolvedConfig::Unfetched(unfetched)) => unfetched,
                read => return read,
            };
            for source in &unfetched {
                let Some(found) = self.cache.load(&source.hash) else {
                    return Err(UnresolvedConfig::Unfetched(unfetched));
                };
                contents.insert(source.hash.clone(), found);
            }
        }
    }

    async fn fetched(&self, source: &RemoteSource, left: usize, end: Instant) -> Result<Vec<u8>, FetchError> {
        let (purpose, url) = (source.purpose.clone(), source.url.to_string());
        let time = end.saturating_duration_since(Instant::now());
        let sent = match fetch_contents(&source.url, left, time).await {
            Ok(sent) => sent,
            Err(source) => return Err(FetchError::Fetch { purpose, url, source }),
        };
        let contents = match source.verified(sent, left) {
            Ok(contents) => contents,
            Err(source) => return Err(FetchError::Refused { purpose, url, source }),
        };
        let kept = if self.keeps { self.cache.store(&source.hash, &contents) } else { Ok(()) };
        kept.map(|()| contents).map_err(|source| FetchError::Keep { purpose, source })
    }

    fn forget_others(&self, used: &RemoteContents) {
        if self.keeps
            && let Err(error) = self.cache.retain(used)
        {
            log::warn!("contents that no config names stay: {error}", error = chain(&error));
        }
    }
}
