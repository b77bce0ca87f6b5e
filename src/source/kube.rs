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

use crate::cluster::{Cluster, ClusterError, NodeSeen};
use crate::core::daemon::lifecycle::{ConfigRef, DaemonPhase, DaemonProblem, Lifecycle, ProblemClass};
use crate::core::daemon::node::annotations;
use crate::core::daemon::node::annotations::NodeAnnotations;
use crate::core::values::backoff::RetryClass;
use crate::host::facts::boot;
use crate::source::{Delivery, Order, Said, View};

use publish::{Published, Publisher};

/// A connection that held for so long is not counted among failures.
const STEADY: Duration = Duration::from_secs(60);

/// A watch is never so far behind a write.
const CATCHING_UP: Duration = Duration::from_secs(10);

type Running<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What came of telling a view.
type Telling = Result<Box<Published>, ClusterError>;

/// The source.
pub struct Kube {
    cluster: Cluster,
    said: UnboundedSender<Said>,
    seed: NodeAnnotations,
    node: Option<NodeSeen>,
    /// When a write brought it back.
    written: Option<Instant>,
    last_wish: Option<ConfigRef>,
    trouble: Option<String>,
    views: VecDeque<View>,
    /// Where the daemon stands, as far as it is told.
    told: Lifecycle,
    publisher: Publisher,
}

impl std::fmt::Debug for Kube {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kube").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

/// What happened next.
enum Next {
    Node(Option<Result<Option<NodeSeen>, ClusterError>>),
    Order(Option<Order>),
    Published(Telling),
    Fetched(ConfigRef, Result<Delivery, DaemonProblem>),
    Again,
}

impl Kube {
    /// Speaks to this cluster.
    #[must_use]
    pub fn new(cluster: Cluster, said: UnboundedSender<Said>) -> Self {
        Self {
            publisher: Publisher::new(cluster.clone()),
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
    pub async fn run(mut self, mut orders: UnboundedReceiver<Order>) {
        let mut watch: Option<BoxStream<'static, Result<Option<NodeSeen>, ClusterError>>> = None;
        let mut watching = Attempts::default();
        let mut publishing: Option<Running<Telling>> = None;
        let mut telling = Attempts::default();
        let mut fetching = FuturesUnordered::<Running<(ConfigRef, Result<Delivery, DaemonProblem>)>>::new();
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
                Some((wish, fetched)) = fetching.next() => Next::Fetched(wish, fetched),
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
                Next::Fetched(wish, fetched) => self.say(Said::Fetched(wish, fetched)),
                Next::Order(Some(Order::Tell(view))) => self.views.push_back(*view),
                Next::Order(Some(Order::Fetch(wish))) => {
                    // Only what is wanted last is of interest.
                    fetching.clear();
                    fetching.push(Box::pin(fetch(self.cluster.clone(), wish)));
                }
                Next::Order(None) => return,
                Next::Again => {}
            }
        }
    }

    async fn watch(
        &mut self,
        attempts: &mut Attempts,
    ) -> Option<BoxStream<'static, Result<Option<NodeSeen>, ClusterError>>> {
        match self.cluster.watch_node().await {
            Ok(stream) => Some(stream.boxed()),
            Err(error) => {
                self.complain(&error);
                attempts.fail();
                None
            }
        }
    }

    fn say(&self, said: Said) {
        // Nobody listens only where the daemon ends.
        drop(self.said.send(said));
    }

    fn complain(&mut self, error: &ClusterError) {
        let trouble = Some(error.to_string());
        if trouble != self.trouble {
            self.trouble.clone_from(&trouble);
            self.say(Said::Trouble(trouble));
        }
    }

    fn see(&mut self, node: Option<NodeSeen>) {
        let Some(node) = node else {
            return self.complain(&ClusterError::Missing(format!("node {}", self.cluster.node)));
        };
        self.be_well();
        // What a write brought back may be newer than what a watch says now. Not for long: a cluster that was restored
        // counts from where it was.
        let is_fresh = self.written.is_some_and(|written| written.elapsed() < CATCHING_UP);
        let is_older = |seen: &NodeSeen| seen.uid == node.uid && seen.version > node.version;
        if is_fresh && self.node.as_ref().is_some_and(is_older) {
            return;
        }
        self.node = Some(node);
        self.ask();
        self.answer();
    }

    fn be_well(&mut self) {
        if self.trouble.take().is_some() {
            self.say(Said::Trouble(None));
        }
    }

    /// What is wanted, where that changed.
    fn ask(&mut self) {
        let Some(node) = &self.node else { return };
        let runs = self.views.back().map_or(&self.told, |view| &view.lifecycle).runs.as_ref();
        let wish = annotations::wish(&node.annotations, &self.seed, runs);
        if let Some(wish) = wish.filter(|wish| self.last_wish.as_ref() != Some(wish)) {
            self.last_wish = Some(wish.clone());
            self.say(Said::Wished(wish));
        }
    }

    /// Whether the drain controller did what it was asked for where the daemon stands.
    fn answer(&self) {
        let Some(node) = &self.node else { return };
        let lifecycle = &self.told;
        match &lifecycle.phase {
            DaemonPhase::Draining { target, .. } if annotations::is_drained(&node.annotations, target) => {
                self.say(Said::Drained(target.clone()));
            }
            DaemonPhase::Uncordoning { .. } => {
                let runs = lifecycle.runs.as_ref();
                if runs.is_some_and(|runs| annotations::is_uncordoned(&node.annotations, runs)) {
                    self.say(Said::Uncordoned);
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
                let Published { view, node, publisher } = *published;
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
                self.say(Said::Told(view.number));
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

async fn fetch(cluster: Cluster, wish: ConfigRef) -> (ConfigRef, Result<Delivery, DaemonProblem>) {
    let delivered = async {
        let document = cluster.machine_config(&wish.config).await?;
        Ok(Delivery { document, policy: cluster.disruption_policy().await? })
    };
    let delivered: Result<Delivery, ClusterError> = delivered.await;
    if delivered.as_ref().is_err_and(ClusterError::is_about_the_connection) {
        cluster.reader.renew();
    }
    let delivered = delivered.map_err(|error| error.problem()).and_then(|delivery| {
        let is_settled = delivery.policy.as_deref().is_none_or(is_worked_out);
        let reason = "the cluster's operator has not worked out its node disruption policy yet".to_owned();
        if is_settled { Ok(delivery) } else { Err(DaemonProblem { class: ProblemClass::Transient, reason }) }
    });
    (wish, delivered)
}

/// Whether the operator has seen the newest version of the policy.
fn is_worked_out(policy: &[u8]) -> bool {
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
