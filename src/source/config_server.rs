//! Source `https://…`: the desired config is a document on a server, such as the config of a pool on a config server. It
//! is asked for every few minutes, at another moment by each host of a fleet.
//!
//! Without a cluster, no component drains the node or reads published phases: both are acknowledged at once.

use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep_until};

use crate::core::config::butane::NoLocalFiles;
use crate::core::config::decode;
use crate::core::config::ignition::remote_contents::UnresolvedConfig;
use crate::core::daemon::lifecycle::{ConfigRef, DaemonPhase, DaemonProblem, ProblemClass};
use crate::core::plan::plain_ignition;
use crate::core::plan::plain_ignition::ReferencedContents;
use crate::core::values::causes::chain;
use crate::core::values::refusal::RefusalList;
use crate::core::values::tree::ContentDigest;
use crate::host::facts::boot;
use crate::host::memory_file::MemoryFile;
use crate::https;
use crate::https::{DocumentAnswer, DocumentRequest, DocumentVersion, HttpsError};
use crate::source::contents_fetcher::{ContentsFetcher, FetchError};
use crate::source::{
    FetchedConfig, LifecycleView, SourceCommand, SourceEvent, acknowledge, config_ref, delay_after,
};

/// Shortest time between two requests, whatever an operator asks for.
const SPACING: Duration = Duration::from_secs(10);

/// Failure to get the desired config.
#[derive(Debug, thiserror::Error)]
enum PollError {
    #[error(transparent)]
    Https(#[from] HttpsError),
    #[error(transparent)]
    Contents(#[from] FetchError),
    /// A document that is no valid config.
    #[error("{}", refusals.in_file(file))]
    Refused { file: String, refusals: RefusalList },
    #[error("no memory for the config")]
    Memory(#[source] std::io::Error),
}

impl PollError {
    fn retry_after(&self) -> Duration {
        match self {
            Self::Https(error) => error.retry_after(),
            Self::Contents(error) => error.retry_after(),
            Self::Refused { .. } | Self::Memory(_) => Duration::ZERO,
        }
    }
}

/// Desired config of the server.
struct ServedConfig {
    desired: ConfigRef,
    document: MemoryFile,
}

impl ServedConfig {
    async fn of(
        bytes: &[u8],
        request: &DocumentRequest,
        contents: &ContentsFetcher,
    ) -> Result<Self, PollError> {
        let stem = plain_ignition::stem_of(request.url.last_element());
        let refused = |refusals: RefusalList| PollError::Refused { file: request.url.to_string(), refusals };
        let received = contents.read(|remote| {
            let referenced = ReferencedContents { local: &NoLocalFiles, remote };
            match plain_ignition::parse(bytes, stem, referenced) {
                Ok(received) => Ok(Ok(received.config)),
                Err(UnresolvedConfig::Refused(refusals)) => Ok(Err(refusals)),
                Err(UnresolvedConfig::Unfetched(wanted)) => Err(wanted),
            }
        });
        let config = received.await?.map_err(refused)?;
        decode::decode(&config).map_err(refused)?;
        let document = MemoryFile::of("machineconfig", config.document.to_string().as_bytes());
        Ok(Self { desired: config_ref(&config), document: document.map_err(PollError::Memory)? })
    }
}

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
        let asked = Notify::new();
        let (sender, polled) = unbounded_channel();
        let polls = ServerPoller {
            request: &self.request,
            interval: self.interval,
            contents: &self.contents,
            asked: &asked,
        };
        let answers = SourceAnswers { events: self.events, asked: &asked, served: None, error: None };
        tokio::select! {
            () = polls.run(sender) => {}
            () = answers.run(commands, polled) => {}
        }
    }
}

/// Result of one request; `None` if the document is the one before.
type PollResult = Result<Option<ServedConfig>, PollError>;

/// Asks the server again and again.
struct ServerPoller<'a> {
    request: &'a DocumentRequest,
    interval: Duration,
    contents: &'a ContentsFetcher,
    asked: &'a Notify,
}

impl ServerPoller<'_> {
    async fn run(self, results: UnboundedSender<PollResult>) {
        let (mut known, mut failures) = (KnownDocument::default(), 0_u32);
        loop {
            let began = Instant::now();
            let result = self.poll(&mut known).await;
            let delay = match &result {
                Ok(_) => {
                    failures = 0;
                    spread(self.interval)
                }
                Err(error) => {
                    failures = failures.saturating_add(1);
                    error.retry_after() + delay_after(failures)
                }
            };
            if results.send(result).is_err() {
                return;
            }
            // What was asked before this answer came, it answers.
            self.asked.notified().now_or_never().unwrap_or_default();
            tokio::select! {
                () = sleep_until(began + delay) => {}
                () = self.asked.notified() => sleep_until(began + SPACING.min(delay)).await,
            }
        }
    }

    async fn poll(&self, known: &mut KnownDocument) -> PollResult {
        match https::fetch(self.request, &known.version).await? {
            DocumentAnswer::Unchanged => Ok(None),
            DocumentAnswer::Document { bytes, version } => {
                let digest = ContentDigest::of(&bytes);
                let is_same = known.digest.as_ref() == Some(&digest);
                let served = if is_same {
                    None
                } else {
                    Some(ServedConfig::of(&bytes, self.request, self.contents).await?)
                };
                // Only of a usable document: an unusable one is fetched and refused again.
                *known = KnownDocument { version, digest: Some(digest) };
                Ok(served)
            }
        }
    }
}

/// The last document that could be used.
#[derive(Default)]
struct KnownDocument {
    version: DocumentVersion,
    digest: Option<ContentDigest>,
}

/// Spread a time by ±25 %: hosts that were started together must not ask together.
fn spread(mean: Duration) -> Duration {
    mean * (750 + boot::jitter() / 2) / 1000
}

/// Answers the daemon, and reports what the poller finds.
struct SourceAnswers<'a> {
    events: UnboundedSender<SourceEvent>,
    asked: &'a Notify,
    served: Option<ServedConfig>,
    error: Option<String>,
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
        acknowledge(view, |event| self.send(event));
        // The daemon has just been started, or asked to look again.
        if view.lifecycle.phase == DaemonPhase::Observing {
            self.asked.notify_one();
        }
    }

    fn fetched(&self, desired: &ConfigRef) -> Result<FetchedConfig, DaemonProblem> {
        let failed =
            |reason: &str| DaemonProblem { class: ProblemClass::Transient, reason: reason.to_owned() };
        let served = self.served.as_ref().filter(|served| served.desired.is_same(desired));
        let served = served.ok_or_else(|| failed("the server desires another config by now"))?;
        let document = served.document.share();
        let document = document.map_err(|error| failed(&format!("no file for the config: {error}")))?;
        Ok(FetchedConfig { document: Some(document), policy: None })
    }

    /// Report a changed config or error. The last desired config stays in force while the server is away.
    fn report(&mut self, result: PollResult) {
        let (served, error) = match result {
            Ok(served) => (served, None),
            Err(error) => (None, Some(chain(&error))),
        };
        if error != self.error {
            self.error.clone_from(&error);
            self.send(SourceEvent::SourceError(error));
        }
        let Some(served) = served else { return };
        let is_known = self.served.as_ref().is_some_and(|known| known.desired == served.desired);
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
