//! Source `https://…`: the desired config is a document on a server, such as the config of a pool on a config server.

use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::core::config::butane::NoLocalFiles;
use crate::core::config::decode;
use crate::core::config::ignition::remote_contents::{RemoteContents, UnresolvedConfig};
use crate::core::config::machine_config::MachineConfig;
use crate::core::config::received;
use crate::core::config::received::ReferencedContents;
use crate::core::config::received::document_set::DocumentSetError;
use crate::core::values::tree::ContentDigest;
use crate::https;
use crate::https::{DocumentAnswer, DocumentRequest, DocumentVersion};
use crate::source::contents_fetcher::ContentsFetcher;
use crate::source::polled::{PlaceAnswer, PollError, PolledPlace, follow};
use crate::source::{SourceCommand, SourceEvent};

/// Source of the desired config on a server.
#[derive(Debug)]
pub struct ConfigServerSource {
    request: DocumentRequest,
    interval: Duration,
    contents: ContentsFetcher,
    events: UnboundedSender<SourceEvent>,
}

impl ConfigServerSource {
    /// Create the source; `interval` is the mean time between two requests, and reports go to `events`.
    #[must_use]
    pub fn new(
        request: DocumentRequest,
        interval: Duration,
        contents: ContentsFetcher,
        events: UnboundedSender<SourceEvent>,
    ) -> Self {
        Self { request, interval, contents, events }
    }

    /// Run until the daemon drops its end of the command channel.
    pub async fn run(self, commands: UnboundedReceiver<SourceCommand>) {
        let place = ConfigServer { request: self.request, known: KnownDocument::default() };
        follow(place, self.contents, self.interval, self.events, commands).await;
    }
}

/// The server, and the last state of its document.
struct ConfigServer {
    request: DocumentRequest,
    known: KnownDocument,
}

/// The last document that was sent.
#[derive(Default)]
struct KnownDocument {
    version: DocumentVersion,
    digest: Option<ContentDigest>,
}

impl PolledPlace for ConfigServer {
    type Documents = Vec<u8>;

    async fn ask(&mut self) -> Result<PlaceAnswer<Vec<u8>>, PollError> {
        match https::fetch(&self.request, &self.known.version).await? {
            DocumentAnswer::Unchanged => Ok(PlaceAnswer::Unchanged),
            DocumentAnswer::Document { bytes, version } => {
                let digest = Some(ContentDigest::of(&bytes));
                let is_same = self.known.digest == digest;
                self.known = KnownDocument { version, digest };
                Ok(if is_same { PlaceAnswer::Unchanged } else { PlaceAnswer::Documents(bytes) })
            }
        }
    }

    fn read(
        &self,
        document: &Vec<u8>,
        remote: &RemoteContents,
    ) -> Result<MachineConfig, UnresolvedConfig<DocumentSetError>> {
        let stem = received::stem_of(self.request.url.last_element());
        let referenced = ReferencedContents { local: &NoLocalFiles, remote };
        let refused = |refusals| DocumentSetError::Refused { file: self.request.url.to_string(), refusals };
        let received = received::parse(document, stem, referenced);
        let config = received.map_err(|error| error.map_refused(refused))?.config;
        decode::decode(&config).map_err(refused)?;
        Ok(config)
    }
}
