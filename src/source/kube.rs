//! A cluster that says what this node is to be: by the annotations of the node, which are watched. Where the daemon
//! stands is told in the same place, in the order in which it went, and in each of its steps once.
//!
//! An API server that is away stops nothing: what it said last is not acted upon anew, and it is told everything once it
//! is back.

mod publish;
mod seed;

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{BoxStream, FuturesUnordered};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::time::{Instant, sleep_until};

use crate::cluster::{ClusterClient, ClusterError, ObservedNode};
use crate::core::daemon::lifecycle::{ConfigRef, DaemonPhase, DaemonProblem, Lifecycle, ProblemClass};
use crate::core::daemon::node::annotations;
use crate::core::daemon::node::annotations::NodeAnnotations;
use crate::core::values::backoff::RetryClass;
use crate::host::facts::boot;
use crate::source::{FetchedConfig, LifecycleView, SourceCommand, SourceEvent};

use publish::{NodePublisher, PublishOutcome};

/// A connection that held for so long is not counted among failures.
const STEADY: Duration = Duration::from_secs(60);

/// A watch is never so far behind a write.
const CATCHING_UP: Duration = Duration::from_secs(10);

type Running<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What came of telling a view.
type Telling = Result<Box<PublishOutcome>, ClusterError>;

/// The source.
pub struct KubeSource {
    cluster: ClusterClient,
    said: UnboundedSender<SourceEvent>,
    seed: NodeAnnotations,
    node: Option<ObservedNode>,
    /// When a write brought it back.
    written: Option<Instant>,
    last_wish: Option<ConfigRef>,
    trouble: Option<String>,
    views: VecDeque<LifecycleView>,
    /// Where the daemon stands, as far as it is told.
    told: Lifecycle,
    publisher: NodePublisher,
}

impl std::fmt::Debug for KubeSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kube").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

/// What happened next.
enum Next {
    Node(Option<Result<Option<ObservedNode>, ClusterError>>),
    Order(Option<SourceCommand>),
    Published(Telling),
    Fetched(ConfigRef, Result<FetchedConfig, DaemonProblem>),
    Again,
}

impl KubeSource {
    /// Speaks to this cluster.
    #[must_use]
    pub fn new(cluster: ClusterClient, said: UnboundedSender<SourceEvent>) -> Self {
        Self {
            publisher: NodePublisher::new(cluster.clone()),
            cluster,
            said,
            seed: seed::load(),
            node: None,
            written: None,
            last_wish: None,
            trouble: None,
            views: VecDeque::new(),
            told: Lifecycle::default(),
        }
    }

    /// Runs as long as somebody listens.
    pub async fn run(mut self, mut orders: UnboundedReceiver<SourceCommand>) {
        let mut watch: Option<BoxStream<'static, Result<Option<ObservedNode>, ClusterError>>> = None;
        let mut watching = Attempts::default();
        let mut publishing: Option<Running<Telling>> = None;
        let mut telling = Attempts::default();
        let mut fetching =
            FuturesUnordered::<Running<(ConfigRef, Result<FetchedConfig, DaemonProblem>)>>::new();
        loop {
            if watch.is_none() && watching.is_due() {
                watch = self.watch(&mut watching).await;
            }
            if publishing.is_none() && telling.is_due() {
                publishing = self.publish();
            }
            let next = tokio::select! {
                biased;
                node = next_of(watch.as_mut()), if watching.is_due() => Next::Node(node),
                published = running(publishing.as_mut()) => Next::Published(published),
                Some((desired, fetched)) = fetching.next() => Next::Fetched(desired, fetched),
                order = orders.recv() => Next::Order(order),
                () = watching.wait() => Next::Again,
                () = telling.wait() => Next::Again,
            };
            match next {
                Next::Node(Some(Ok(node))) => {
                    watching.succeed();
                    self.see(node);
                }
                Next::Node(Some(Err(error))) => {
                    if error.is_about_the_connection() {
                        self.cluster.writer.renew();
                        watch = None;
                    }
                    self.complain(&error);
                    watching.fail();
                }
                Next::Node(None) => watch = None,
                Next::Published(published) => {
                    publishing = None;
                    self.conclude(published, &mut telling);
                }
                Next::Fetched(desired, fetched) => self.say(SourceEvent::Fetched(desired, fetched)),
                Next::Order(Some(SourceCommand::Publish(view))) => self.views.push_back(*view),
                Next::Order(Some(SourceCommand::Fetch(desired))) => {
                    // Only what is wanted last is of interest.
                    fetching.clear();
                    fetching.push(Box::pin(fetch(self.cluster.clone(), desired)));
                }
                Next::Order(None) => return,
                Next::Again => {}
            }
        }
    }

    async fn watch(
        &mut self,
        attempts: &mut Attempts,
    ) -> Option<BoxStream<'static, Result<Option<ObservedNode>, ClusterError>>> {
        match self.cluster.watch_node().await {
            Ok(stream) => Some(stream.boxed()),
            Err(error) => {
                self.complain(&error);
                attempts.fail();
                None
            }
        }
    }

    fn say(&self, said: SourceEvent) {
        // Nobody listens only where the daemon ends.
        drop(self.said.send(said));
    }

    fn complain(&mut self, error: &ClusterError) {
        let trouble = Some(error.to_string());
        if trouble != self.trouble {
            self.trouble.clone_from(&trouble);
            self.say(SourceEvent::SourceError(trouble));
        }
    }

    fn see(&mut self, node: Option<ObservedNode>) {
        let Some(node) = node else {
            return self.complain(&ClusterError::NotFound(format!("node {}", self.cluster.node)));
        };
        self.be_well();
        // What a write brought back may be newer than what a watch says now. Not for long: a cluster that was restored
        // counts from where it was.
        let is_fresh = self.written.is_some_and(|written| written.elapsed() < CATCHING_UP);
        let is_older = |seen: &ObservedNode| seen.uid == node.uid && seen.version > node.version;
        if is_fresh && self.node.as_ref().is_some_and(is_older) {
            return;
        }
        self.node = Some(node);
        self.ask();
        self.answer();
    }

    fn be_well(&mut self) {
        if self.trouble.take().is_some() {
            self.say(SourceEvent::SourceError(None));
        }
    }

    /// What is wanted, where that changed.
    fn ask(&mut self) {
        let Some(node) = &self.node else { return };
        let current = self.views.back().map_or(&self.told, |view| &view.lifecycle).current.as_ref();
        let desired = annotations::desired_config(&node.annotations, &self.seed, current);
        if let Some(desired) = desired.filter(|desired| self.last_wish.as_ref() != Some(desired)) {
            self.last_wish = Some(desired.clone());
            self.say(SourceEvent::DesiredChanged(desired));
        }
    }

    /// Whether the drain controller did what it was asked for where the daemon stands.
    fn answer(&self) {
        let Some(node) = &self.node else { return };
        let lifecycle = &self.told;
        match &lifecycle.phase {
            DaemonPhase::Draining { target, .. } if annotations::is_drained(&node.annotations, target) => {
                self.say(SourceEvent::Drained(target.clone()));
            }
            DaemonPhase::Uncordoning { .. } => {
                let current = lifecycle.current.as_ref();
                if current.is_some_and(|current| annotations::is_uncordoned(&node.annotations, current)) {
                    self.say(SourceEvent::Uncordoned);
                }
            }
            _ => {}
        }
    }

    /// Begins to tell the next view, once the node was seen.
    fn publish(&mut self) -> Option<Running<Telling>> {
        let (node, view) = (self.node.clone()?, self.views.front()?.clone());
        let publisher = self.publisher.clone();
        let (before, seed) = (self.told.clone(), self.seed.clone());
        Some(Box::pin(async move { publisher.publish(view, &before, node, &seed).await.map(Box::new) }))
    }

    fn conclude(&mut self, published: Telling, telling: &mut Attempts) {
        match published {
            Ok(published) => {
                let PublishOutcome { view, node, publisher } = *published;
                telling.succeed();
                self.be_well();
                self.publisher = publisher;
                self.views.pop_front();
                if self.told.phase != DaemonPhase::Done && view.lifecycle.phase == DaemonPhase::Done {
                    seed::retire();
                }
                self.told = view.lifecycle;
                if self.node.as_ref().is_none_or(|seen| seen.version < node.version) {
                    (self.node, self.written) = (Some(node), Some(Instant::now()));
                }
                // What is wanted by now comes before what it is the answer to.
                self.ask();
                self.say(SourceEvent::Published(view.number));
                self.answer();
            }
            Err(error) => {
                if error.is_about_the_connection() {
                    self.cluster.writer.renew();
                    self.cluster.reader.renew();
                }
                self.publisher.forget();
                self.complain(&error);
                // Where it stood meanwhile is nobody's interest any more.
                while self.views.len() > 1 {
                    self.views.pop_front();
                }
                telling.fail();
            }
        }
    }
}

async fn next_of<T>(stream: Option<&mut BoxStream<'static, T>>) -> Option<T> {
    match stream {
        Some(stream) => stream.next().await,
        None => std::future::pending().await,
    }
}

async fn running<T>(future: Option<&mut Running<T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

async fn fetch(
    cluster: ClusterClient,
    desired: ConfigRef,
) -> (ConfigRef, Result<FetchedConfig, DaemonProblem>) {
    let delivered = async {
        let document = cluster.machine_config(&desired.config).await?;
        Ok(FetchedConfig { document, policy: cluster.disruption_policy().await? })
    };
    let delivered: Result<FetchedConfig, ClusterError> = delivered.await;
    if delivered.as_ref().is_err_and(ClusterError::is_about_the_connection) {
        cluster.reader.renew();
    }
    let delivered = delivered.map_err(|error| error.problem()).and_then(|delivery| {
        let is_settled = delivery.policy.as_deref().is_none_or(is_policy_observed);
        let reason = "the cluster's operator has not worked out its node disruption policy yet".to_owned();
        if is_settled { Ok(delivery) } else { Err(DaemonProblem { class: ProblemClass::Transient, reason }) }
    });
    (desired, delivered)
}

/// Whether the operator has seen the newest version of the policy.
fn is_policy_observed(policy: &[u8]) -> bool {
    let Ok(policy) = serde_json::from_slice::<serde_json::Value>(policy) else { return true };
    let number = |pointer| policy.pointer(pointer).and_then(serde_json::Value::as_i64);
    number("/status/observedGeneration")
        .is_some_and(|observed| number("/metadata/generation") == Some(observed))
}

/// Attempts at something that is made again and again.
#[derive(Debug, Default)]
struct Attempts {
    failures: u32,
    next: Option<Instant>,
    since: Option<Instant>,
}

impl Attempts {
    fn is_due(&self) -> bool {
        self.next.is_none_or(|next| next <= Instant::now())
    }

    async fn wait(&self) {
        match self.next {
            Some(next) if next > Instant::now() => sleep_until(next).await,
            _ => std::future::pending().await,
        }
    }

    fn fail(&mut self) {
        let was_steady = self.since.take().is_some_and(|since| since.elapsed() >= STEADY);
        self.failures = if was_steady { 1 } else { self.failures.saturating_add(1) };
        self.next = Some(Instant::now() + RetryClass::Time.delay(self.failures, boot::chance()));
    }

    fn succeed(&mut self) {
        self.since.get_or_insert_with(Instant::now);
        self.next = None;
    }
}
