//! Contents that an Ignition config names by URL and hash. The hash makes them part of the config: they are the same from every
//! server, at any time.

use std::collections::BTreeMap;
use std::fmt;

use super::content_hash::{ContentHash, OtherHash};
use crate::core::config::contents::{self, ContentsError};
use crate::core::config::settings::server_url::ServerUrl;
use crate::core::values::limits;
use crate::core::values::refusal::{Refusal, RefusalList};

/// Contents to fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteSource {
    /// Path of the file that gets them, or field of the config that is merged.
    pub purpose: String,
    pub url: ServerUrl,
    pub hash: ContentHash,
    /// True if the server has them compressed by gzip.
    pub is_compressed: bool,
}

/// Reason against contents that a server sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteFault {
    #[error(transparent)]
    Compression(#[from] ContentsError),
    #[error(transparent)]
    OtherHash(#[from] OtherHash),
}

impl RemoteSource {
    /// Decompress the body of the response, to at most `limit` bytes, and check its hash.
    pub fn verified(&self, sent: Vec<u8>, limit: usize) -> Result<Vec<u8>, RemoteFault> {
        let contents = if self.is_compressed { contents::inflate(&sent, limit)? } else { sent };
        if contents.len() > limit {
            return Err(ContentsError::TooLarge.into());
        }
        self.hash.verify(&contents)?;
        Ok(contents)
    }
}

/// Verified contents, by their hash.
#[derive(Default)]
pub struct RemoteContents {
    verified: BTreeMap<ContentHash, Vec<u8>>,
    bytes: usize,
}

impl RemoteContents {
    /// Return the contents with this hash, if they were fetched.
    #[must_use]
    pub fn get(&self, hash: &ContentHash) -> Option<&[u8]> {
        self.verified.get(hash).map(Vec::as_slice)
    }

    /// Add contents whose hash was checked.
    pub fn insert(&mut self, hash: ContentHash, contents: Vec<u8>) {
        self.bytes += contents.len();
        self.verified.insert(hash, contents);
    }

    /// Return the number of bytes that may still be added.
    #[must_use]
    pub fn left(&self) -> usize {
        limits::REMOTE_BYTES.saturating_sub(self.bytes)
    }

    /// List the hashes of all contents.
    pub fn hashes(&self) -> impl Iterator<Item = &ContentHash> {
        self.verified.keys()
    }
}

/// Shows the hashes only: contents may be secret.
impl fmt::Debug for RemoteContents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.hashes()).finish()
    }
}

/// Reason why a document, or a set of them, is no config, or none yet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnresolvedConfig<E = RefusalList> {
    #[error(transparent)]
    Refused(#[from] E),
    /// Contents have to be fetched, of which those with one hash are listed once. More may follow, where they are a config.
    #[error("contents of the config are not fetched yet: {}", listed(.0))]
    Unfetched(Vec<RemoteSource>),
}

impl<E> UnresolvedConfig<E> {
    /// Replace the refusal, such as by one that names the document.
    pub fn map_refused<F>(self, name: impl FnOnce(E) -> F) -> UnresolvedConfig<F> {
        match self {
            Self::Refused(error) => UnresolvedConfig::Refused(name(error)),
            Self::Unfetched(wanted) => UnresolvedConfig::Unfetched(wanted),
        }
    }
}

impl UnresolvedConfig {
    /// Return the problems, where nothing can be fetched.
    #[must_use]
    pub fn refusals(self) -> RefusalList {
        match self {
            Self::Refused(refusals) => refusals,
            Self::Unfetched(sources) => {
                let refused = |source: &RemoteSource| {
                    let reason = format!("{} is not fetched here; embed it as a data URL", source.url);
                    Refusal::new(&source.purpose, reason)
                };
                let refused = RefusalList::or(sources.iter().map(refused).collect(), ());
                refused.err().unwrap_or_else(|| RefusalList::one("", "contents are not fetched here"))
            }
        }
    }
}

fn listed(sources: &[RemoteSource]) -> String {
    sources.iter().map(|source| source.url.to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const ABC: &str = "sha256-ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn source(is_compressed: bool) -> RemoteSource {
        RemoteSource {
            purpose: "/opt/tool".to_owned(),
            url: ServerUrl::of_contents("https://host/tool?signature=secret").unwrap(),
            hash: ABC.parse().unwrap(),
            is_compressed,
        }
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn sent_contents_are_decompressed_and_verified() {
        assert_eq!(source(false).verified(b"abc".to_vec(), 3), Ok(b"abc".to_vec()));
        assert_eq!(source(true).verified(gzip(b"abc"), 3), Ok(b"abc".to_vec()));
        let mut truncated = gzip(b"abc");
        truncated.truncate(truncated.len() - 5);
        let gzip_fault = RemoteFault::Compression(ContentsError::Gzip);
        assert_eq!(source(true).verified(truncated, 3), Err(gzip_fault));
        let too_large = RemoteFault::Compression(ContentsError::TooLarge);
        assert_eq!(source(true).verified(gzip(&vec![0; 1 << 20]), 3), Err(too_large.clone()));
        assert_eq!(source(false).verified(b"abcd".to_vec(), 3), Err(too_large));
        for sent in [b"abd".to_vec(), Vec::new()] {
            assert!(matches!(source(false).verified(sent, 3), Err(RemoteFault::OtherHash(_))));
        }
    }

    #[test]
    fn refusal_names_the_file_and_the_url_without_its_query() {
        let refused = UnresolvedConfig::Unfetched(vec![source(false)]).refusals().to_string();
        assert!(refused.starts_with("/opt/tool: https://host/tool is not"), "{refused}");
        assert!(
            !refused.contains("secret") && !format!("{:?}", source(false)).contains("secret"),
            "{refused}"
        );
    }
}
