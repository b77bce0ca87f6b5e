//! Source `oci://…`: the desired config is an artifact in a container registry, whose files are merged as those of a directory.
//!
//! Its tag is asked for every few minutes; files are fetched only if it names another artifact then.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;

use crate::core::config::artifact::{ArtifactFiles, ArtifactRef, PulledArtifact};
use crate::core::config::ignition::remote_contents::{RemoteContents, UnresolvedConfig};
use crate::core::config::machine_config::MachineConfig;
use crate::core::config::received::document_set::{DocumentSetError, merge_artifact};
use crate::source::contents_fetcher::ContentsFetcher;
use crate::source::polled::{PlaceAnswer, PollError, PolledPlace, follow};
use crate::source::{SourceCommand, SourceEvent};

/// The artifact; `None` if it is the known one.
type PullResult = Result<Option<PulledArtifact>, ArtifactPullError>;

/// Client of registries.
pub trait ArtifactClient: std::fmt::Debug + Send + Sync {
    /// Pull an artifact; `None` if it has the digest `known`. Blocks.
    fn pull(&self, artifact: &ArtifactRef, known: Option<&str>) -> PullResult;
}

/// Failure to pull an artifact.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{reason}")]
pub struct ArtifactPullError {
    /// Cause and way out.
    pub reason: String,
    /// Digest of an artifact that is refused whenever it is pulled; `None` if a later pull may succeed.
    pub refused: Option<String>,
}

/// Source of the desired config in a registry.
#[derive(Debug)]
pub struct ArtifactSource {
    artifact: ArtifactRef,
    client: Arc<dyn ArtifactClient>,
    interval: Duration,
    contents: ContentsFetcher,
    events: UnboundedSender<SourceEvent>,
}

impl ArtifactSource {
    /// Create the source; `interval` is the mean time between two requests, and reports go to `events`.
    #[must_use]
    pub fn new(
        artifact: ArtifactRef,
        client: Arc<dyn ArtifactClient>,
        interval: Duration,
        contents: ContentsFetcher,
        events: UnboundedSender<SourceEvent>,
    ) -> Self {
        Self { artifact, client, interval, contents, events }
    }

    /// Run until the daemon drops its end of the command channel.
    pub async fn run(self, commands: UnboundedReceiver<SourceCommand>) {
        let place = ArtifactPlace { artifact: self.artifact, client: self.client, known: None };
        follow(place, self.contents, self.interval, self.events, commands).await;
    }
}

/// The reference, and the last artifact that it named.
struct ArtifactPlace {
    artifact: ArtifactRef,
    client: Arc<dyn ArtifactClient>,
    /// Digest of the artifact, which need not be pulled again.
    known: Option<String>,
}

impl PolledPlace for ArtifactPlace {
    type Documents = ArtifactFiles;

    async fn ask(&mut self) -> Result<PlaceAnswer<ArtifactFiles>, PollError> {
        match self.pull().await? {
            Ok(None) => Ok(PlaceAnswer::Unchanged),
            Ok(Some(PulledArtifact { digest, files })) => {
                self.known = Some(digest);
                Ok(PlaceAnswer::Documents(files))
            }
            Err(ArtifactPullError { reason, refused: Some(digest) }) => {
                self.known = Some(digest);
                Ok(PlaceAnswer::Refused(reason))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn read(
        &self,
        files: &ArtifactFiles,
        remote: &RemoteContents,
    ) -> Result<MachineConfig, UnresolvedConfig<DocumentSetError>> {
        merge_artifact(&self.artifact, files, remote)
    }

    fn artifact_digest(&self) -> Option<&str> {
        self.known.as_deref()
    }

    fn is_final(&self) -> bool {
        self.artifact.is_pinned()
    }
}

impl ArtifactPlace {
    /// Pull on a thread of its own. Where the daemon stops, it is not waited for: the worker ends with its pipe.
    async fn pull(&self) -> Result<PullResult, PollError> {
        let (artifact, client, known) = (self.artifact.clone(), self.client.clone(), self.known.clone());
        let (done, pulled) = oneshot::channel();
        // The receiver is gone only when the daemon stops.
        let pull = move || drop(done.send(client.pull(&artifact, known.as_deref())));
        let thread = std::thread::Builder::new().name("artifact".to_owned());
        thread.spawn(pull).map_err(PollError::Memory)?;
        pulled.await.map_err(|_| PollError::Memory(std::io::ErrorKind::Interrupted.into()))
    }
}
