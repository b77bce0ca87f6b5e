//! Source that is asked for the desired config again and again, at another moment by each host of a fleet: a server or a
//! registry.

use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep_until};

use crate::core::config::ignition::remote_contents::{RemoteContents, UnresolvedConfig};
use crate::core::config::machine_config::MachineConfig;
use crate::core::config::received::document_set::DocumentSetError;
use crate::core::daemon::lifecycle::{ConfigRef, DaemonPhase, DaemonProblem, ProblemClass};
use crate::core::values::causes::chain;
use crate::host::facts::boot;
use crate::host::memory_file::MemoryFile;
use crate::https::HttpsError;
use crate::source::artifact::ArtifactPullError;
use crate::source::contents_fetcher::{ContentsFetcher, FetchError};
use crate::source::{FetchedConfig, LifecycleView, SourceCommand, SourceEvent, config_ref, delay_after};

/// Shortest time between two requests, also at an operator's request.
const SPACING: Duration = Duration::from_secs(10);

/// Failure to get the desired config.
#[derive(Debug, thiserror::Error)]
pub(super) enum PollError {
    #[error(transparent)]
    Https(#[from] HttpsError),
    #[error(transparent)]
    Artifact(#[from] ArtifactPullError),
    #[error(transparent)]
    Contents(#[from] FetchError),
    /// Documents that are no valid config, with the reason.
    #[error("{0}")]
    Refused(String),
    #[error("no memory for the config")]
    Memory(#[source] std::io::Error),
}

impl PollError {
    fn retry_after(&self) -> Duration {
        match self {
            Self::Https(error) => error.retry_after(),
            Self::Contents(error) => error.retry_after(),
            Self::Artifact(_) | Self::Refused(_) | Self::Memory(_) => Duration::ZERO,
        }
    }
}

/// Desired config of the place.
struct PolledConfig {
    desired: ConfigRef,
    document: MemoryFile,
    /// Digest of the artifact that it comes from.
    artifact: Option<String>,
}

impl PolledConfig {
    fn of(config: &MachineConfig, artifact: Option<&str>) -> Result<Self, PollError> {
        let document = MemoryFile::of("machineconfig", config.document.to_string().as_bytes());
        let document = document.map_err(PollError::Memory)?;
        Ok(Self { desired: config_ref(config), document, artifact: artifact.map(str::to_owned) })
    }
}

/// Result of one request; `None` if the config is the one before.
type PollResult = Result<Option<PolledConfig>, PollError>;

/// Answer of a place.
pub(super) enum PlaceAnswer<D> {
    /// The documents have not changed since the last answer.
    Unchanged,
    Documents(D),
    /// Its documents are refused unread, for this reason, at each request.
    Refused(String),
}

/// Place with the desired config.
pub(super) trait PolledPlace {
    /// Its documents, as they were received.
    type Documents;

    /// Ask once. Cancelled only where the daemon stops.
    async fn ask(&mut self) -> Result<PlaceAnswer<Self::Documents>, PollError>;

    /// Read the config in its documents, with the contents that were fetched.
    fn read(
        &self,
        documents: &Self::Documents,
        remote: &RemoteContents,
    ) -> Result<MachineConfig, UnresolvedConfig<DocumentSetError>>;

    /// Return the digest of the artifact that it answered last.
    fn artifact_digest(&self) -> Option<&str> {
        None
    }

    /// Return true if no later answer can be another one.
    fn is_final(&self) -> bool {
        false
    }
}

/// Asks a place until the daemon drops its end of the command channel; `interval` is the mean time between two requests, and
/// reports go to `events`.
pub(super) async fn follow(
    place: impl PolledPlace,
    contents: ContentsFetcher,
    interval: Duration,
    events: UnboundedSender<SourceEvent>,
    commands: UnboundedReceiver<SourceCommand>,
) {
    let asked = Notify::new();
    let (sender, polled) = unbounded_channel();
    let questions = PlacePoller { place, contents, last: LastAnswer::Read };
    let answers = SourceAnswers { events, asked: &asked, served: None };
    tokio::select! {
        () = questions.run(interval, &asked, sender) => {}
        () = answers.run(commands, polled) => {}
    }
}

/// What became of the last answer, which the place does not repeat.
enum LastAnswer<D> {
    /// Its config was reported, or there was none yet.
    Read,
    /// Contents that it names are missing, and asked for again.
    Unread(D),
    /// No config, for this reason: only another answer helps.
    Refused(String),
}

/// Asks a place again and again.
struct PlacePoller<P: PolledPlace> {
    place: P,
    contents: ContentsFetcher,
    last: LastAnswer<P::Documents>,
}

impl<P: PolledPlace> PlacePoller<P> {
    async fn run(mut self, interval: Duration, asked: &Notify, results: UnboundedSender<PollResult>) {
        let mut failures = 0_u32;
        loop {
            let began = Instant::now();
            let result = self.poll().await;
            let delay = match &result {
                Ok(_) | Err(PollError::Refused(_)) => {
                    failures = 0;
                    spread(interval)
                }
                Err(error) => {
                    failures = failures.saturating_add(1);
                    error.retry_after() + delay_after(failures)
                }
            };
            let is_last = result.is_ok() && self.place.is_final();
            if results.send(result).is_err() {
                return;
            }
            if is_last {
                results.closed().await;
                return;
            }
            // This answer also serves requests that came while it was fetched.
            asked.notified().now_or_never().unwrap_or_default();
            tokio::select! {
                () = sleep_until(began + delay) => {}
                () = asked.notified() => sleep_until(began + SPACING.min(delay)).await,
            }
        }
    }

    /// Ask once, and read the answer, or the last one if its contents are still missing.
    async fn poll(&mut self) -> PollResult {
        match self.place.ask().await? {
            PlaceAnswer::Unchanged => {}
            PlaceAnswer::Documents(documents) => self.last = LastAnswer::Unread(documents),
            PlaceAnswer::Refused(reason) => self.last = LastAnswer::Refused(reason),
        }
        let documents = match &self.last {
            LastAnswer::Read => return Ok(None),
            LastAnswer::Refused(reason) => return Err(PollError::Refused(reason.clone())),
            LastAnswer::Unread(documents) => documents,
        };
        match self.contents.read(|remote| self.place.read(documents, remote)).await? {
            Ok(config) => {
                let config = PolledConfig::of(&config, self.place.artifact_digest())?;
                self.last = LastAnswer::Read;
                Ok(Some(config))
            }
            Err(refusal) => {
                let reason = refusal.to_string();
                self.last = LastAnswer::Refused(reason.clone());
                Err(PollError::Refused(reason))
            }
        }
    }
}

/// Spread a time by ±25 %: hosts that were started together must not ask together.
fn spread(mean: Duration) -> Duration {
    mean * (750 + boot::jitter() / 2) / 1000
}

/// Answers the daemon, and reports what the poller finds.
struct SourceAnswers<'a> {
    events: UnboundedSender<SourceEvent>,
    asked: &'a Notify,
    served: Option<PolledConfig>,
}

impl SourceAnswers<'_> {
    async fn run(
        mut self,
        mut commands: UnboundedReceiver<SourceCommand>,
        mut polled: UnboundedReceiver<PollResult>,
    ) {
        loop {
            tokio::select! {
                command = commands.recv() => match command {
                    None => return,
                    Some(SourceCommand::Publish(view)) => self.published(&view),
                    Some(SourceCommand::Fetch(desired)) => {
                        let fetched = self.fetched(&desired).map_err(Into::into);
                        self.send(SourceEvent::Fetched(desired, fetched));
                    }
                },
                result = polled.recv() => match result {
                    None => return,
                    Some(result) => self.report(result),
                },
            }
        }
    }

    fn published(&self, view: &LifecycleView) {
        // The daemon has just been started, or asked to look again.
        if view.lifecycle.phase == DaemonPhase::Observing {
            self.asked.notify_one();
        }
    }

    fn fetched(&self, desired: &ConfigRef) -> Result<FetchedConfig, DaemonProblem> {
        let failed =
            |reason: &str| DaemonProblem { class: ProblemClass::Transient, reason: reason.to_owned() };
        let served = self.served.as_ref().filter(|served| served.desired.is_same(desired));
        let served = served.ok_or_else(|| failed("the source desires another config by now"))?;
        let document = served.document.share();
        let document = document.map_err(|error| failed(&format!("no file for the config: {error}")))?;
        Ok(FetchedConfig { document: Some(document), policy: None })
    }

    /// Report a changed config or error. The last desired config stays in force while the place is away.
    fn report(&mut self, result: PollResult) {
        let (served, error) = match result {
            Ok(served) => (served, None),
            Err(error) => (None, Some(chain(&error))),
        };
        self.send(SourceEvent::SourceError(error));
        let Some(served) = served else { return };
        let is_known = self.served.as_ref().is_some_and(|known| known.desired == served.desired);
        if let Some(digest) = &served.artifact {
            self.send(SourceEvent::ArtifactPulled(digest.clone()));
        }
        let desired = served.desired.clone();
        self.served = Some(served);
        if !is_known {
            self.send(SourceEvent::DesiredChanged(desired));
        }
    }

    fn send(&self, event: SourceEvent) {
        // The receiver is gone only when the daemon stops.
        drop(self.events.send(event));
    }
}
