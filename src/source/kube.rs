//! Source `kube`: the desired config is an annotation of this host's Node, which is watched. The daemon's
//! phases are published as annotations, conditions and events, in their order and each once.
//!
//! An unreachable API server stops nothing: the last desired config stays in force, and the newest phase is
//! published when the server is back.

mod config_fetch;
mod initial_annotations;
mod pinned_images;
mod policy_watch;
mod publish;
pub(super) mod retry_timer;
mod trust;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use config_fetch::fetch;
use futures::StreamExt as _;
use futures::stream::{BoxStream, FuturesUnordered};
use pinned_images::{NodeLabels, PinnedImageSource};
use policy_watch::PolicyWatch;
use publish::{NodePublisher, PublishOutcome};
use retry_timer::RetryTimer;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::watch::Sender;
use tokio::time::Instant;
use trust::TrustSource;

use crate::cluster::{ClusterClient, ClusterError, ObservedNode};
use crate::core::daemon::lifecycle::{ConfigRef, DaemonPhase, Lifecycle};
use crate::core::daemon::node::annotations;
use crate::core::daemon::node::annotations::{LAST_APPLIED_DRAIN, NodeAnnotations, RETRY};
use crate::core::plan::irreconcilable_changes::IrreconcilableChange;
use crate::source::{FetchFailure, FetchedConfig, LifecycleView, SourceCommand, SourceEvent};

/// Shortest time between two attempts to write conditions that the MachineConfigNode did not accept.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Longest time for which the watch may lag behind a write.
const CATCHING_UP: Duration = Duration::from_secs(10);

pub(super) type RunningRequest<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Result of publishing a view.
type PublishResult = Result<Box<PublishOutcome>, ClusterError>;

pub struct KubeSource {
    cluster: ClusterClient,
    events: UnboundedSender<SourceEvent>,
    /// Initial annotations of the node; empty once they are retired.
    seed: NodeAnnotations,
    node: Option<ObservedNode>,
    /// Time of the write whose answer is in `node`; `None` if the watch reported it.
    written: Option<Instant>,
    last_desired: Option<ConfigRef>,
    /// True once it was reported that the Node names no desired config.
    is_undesired: bool,
    views: VecDeque<LifecycleView>,
    /// State of the daemon as last published, with the number and time of that view.
    published: Lifecycle,
    published_at: Option<(u64, Instant)>,
    /// Irreconcilable changes of that view.
    irreconcilable: Arc<[IrreconcilableChange]>,
    publisher: NodePublisher,
    /// True if the drain controller completed a request in the phase `Done`: it changes the conditions with it.
    was_answered: bool,
    /// Labels of the Node, for those parts that depend on its pools.
    labels: Sender<NodeLabels>,
}

impl std::fmt::Debug for KubeSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubeSource").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

/// Next input of the event loop.
enum Next {
    Node(Option<Result<Option<ObservedNode>, ClusterError>>),
    Command(Option<SourceCommand>),
    Published(PublishResult),
    Fetched(ConfigRef, Result<FetchedConfig, FetchFailure>),
    PolicyChanged,
    Again,
}

impl KubeSource {
    /// Create the source; reports go to `events`.
    #[must_use]
    pub fn new(cluster: ClusterClient, events: UnboundedSender<SourceEvent>) -> Self {
        Self {
            publisher: NodePublisher::new(cluster.clone()),
            cluster,
            events,
            seed: initial_annotations::load(),
            node: None,
            written: None,
            last_desired: None,
            is_undesired: false,
            views: VecDeque::new(),
            published: Lifecycle::default(),
            published_at: None,
            irreconcilable: Arc::default(),
            was_answered: false,
            labels: Sender::default(),
        }
    }

    /// Run until the daemon drops its end of the command channel.
    pub async fn run(self, commands: UnboundedReceiver<SourceCommand>) {
        let trust = TrustSource::new(self.cluster.clone(), self.events.clone());
        let labels = self.labels.subscribe();
        let pins = PinnedImageSource::new(self.cluster.clone(), self.events.clone(), labels);
        tokio::select! {
            () = self.follow_node(commands) => {}
            () = trust.run() => {}
            () = pins.run() => {}
        }
    }

    async fn follow_node(mut self, mut commands: UnboundedReceiver<SourceCommand>) {
        let mut watch: Option<BoxStream<'static, Result<Option<ObservedNode>, ClusterError>>> = None;
        let mut watching = RetryTimer::default();
        let mut publishing: Option<RunningRequest<PublishResult>> = None;
        let mut telling = RetryTimer::default();
        let mut policy = PolicyWatch::new(self.cluster.clone());
        let mut fetching =
            FuturesUnordered::<RunningRequest<(ConfigRef, Result<FetchedConfig, FetchFailure>)>>::new();
        loop {
            if watch.is_none() && watching.is_due() {
                watch = self.watch(&mut watching);
            }
            if publishing.is_none() && telling.is_due() {
                publishing = self.publish();
            }
            policy.follow(matches!(self.published.phase, DaemonPhase::BackingOff { .. }));
            let next = tokio::select! {
                biased;
                node = next_of(watch.as_mut()), if watching.is_due() => Next::Node(node),
                published = running(publishing.as_mut()) => Next::Published(published),
                Some((desired, fetched)) = fetching.next() => Next::Fetched(desired, fetched),
                command = commands.recv() => Next::Command(command),
                () = policy.changed() => Next::PolicyChanged,
                () = watching.wait() => Next::Again,
                () = telling.wait() => Next::Again,
            };
            match next {
                Next::Node(Some(Ok(node))) => {
                    watching.succeed();
                    self.node_changed(node);
                }
                Next::Node(Some(Err(error))) => {
                    if error.is_about_the_connection() {
                        self.cluster.writer.forget_client();
                        watch = None;
                    }
                    self.report_error(&error);
                    watching.fail(&error);
                }
                Next::Node(None) => watch = None,
                Next::Published(published) => {
                    publishing = None;
                    self.published(published, &mut telling);
                }
                Next::Fetched(desired, fetched) => {
                    policy.fetched(fetched.as_ref().ok());
                    self.send(SourceEvent::Fetched(desired, fetched));
                }
                Next::PolicyChanged => self.send(SourceEvent::PolicyChanged),
                Next::Command(Some(SourceCommand::Publish(view))) => self.views.push_back(*view),
                Next::Command(Some(SourceCommand::Fetch(desired))) => {
                    // Only the newest desired config matters.
                    fetching.clear();
                    fetching.push(Box::pin(fetch(self.cluster.clone(), desired)));
                }
                Next::Command(None) => return,
                Next::Again => {}
            }
        }
    }

    fn watch(
        &mut self,
        attempts: &mut RetryTimer,
    ) -> Option<BoxStream<'static, Result<Option<ObservedNode>, ClusterError>>> {
        match self.cluster.watch_node() {
            Ok(stream) => Some(stream.boxed()),
            Err(error) => {
                self.report_error(&error);
                attempts.fail(&error);
                None
            }
        }
    }

    fn send(&self, event: SourceEvent) {
        // The receiver is gone only when the daemon stops.
        drop(self.events.send(event));
    }

    fn report_error(&self, error: &ClusterError) {
        if error.has_no_answer() {
            let is_untrusted = error.is_about_a_certificate();
            self.send(SourceEvent::ConnectionFailed { is_untrusted });
        }
        self.send(SourceEvent::SourceError(Some(error.to_string())));
    }

    fn node_changed(&mut self, node: Option<ObservedNode>) {
        let Some(node) = node else {
            return self.report_error(&ClusterError::NotFound(format!("node {}", self.cluster.node)));
        };
        self.send(SourceEvent::SourceError(None));
        // The answer to a write may be newer than this event of the watch, which is then skipped. Only for a
        // short time: in a cluster restored from a backup, resource versions start again from lower numbers.
        let is_fresh = self.written.is_some_and(|written| written.elapsed() < CATCHING_UP);
        let is_older = |seen: &ObservedNode| seen.uid == node.uid && seen.version > node.version;
        if is_fresh && self.node.as_ref().is_some_and(is_older) {
            return;
        }
        self.labels.send_if_modified(|labels| {
            let is_other = labels.as_ref() != Some(&node.labels);
            if is_other {
                *labels = Some(node.labels.clone());
            }
            is_other
        });
        if let Some(request) = node.annotations.get(RETRY) {
            self.send(SourceEvent::RetryRequested(request.clone()));
        }
        self.keep_node(node);
        self.send_desired();
        self.send_drain_state();
        self.look_again();
    }

    fn keep_node(&mut self, node: ObservedNode) {
        let last_answer = |node: &ObservedNode| node.annotations.get(LAST_APPLIED_DRAIN).cloned();
        let is_answered = self.node.as_ref().is_some_and(|seen| last_answer(seen) != last_answer(&node));
        self.was_answered = (self.was_answered || is_answered) && self.is_followed_by_the_drain_controller();
        self.node = Some(node);
    }

    /// Return true in a phase whose conditions the drain controller's answer to an uncordon replaces with its own.
    fn is_followed_by_the_drain_controller(&self) -> bool {
        matches!(self.published.phase, DaemonPhase::Done | DaemonPhase::AwaitingGrant { .. })
    }

    /// Publish the last view once more if its conditions are not written or not those of the drain controller's last answer, or if
    /// another program changed the annotations, as a restore of the cluster from a backup does. The kubelet changes the Node
    /// every few minutes, so this needs no timer.
    fn look_again(&mut self) {
        let (Some((number, at)), Some(node)) = (self.published_at, &self.node) else { return };
        let is_changed =
            || !annotations::annotation_changes(&self.published, &node.annotations, &self.seed).is_empty();
        let is_due = match at.elapsed() {
            _ if self.was_answered && self.is_followed_by_the_drain_controller() => true,
            elapsed if elapsed >= LOOK_AGAIN => self.publisher.is_behind() || is_changed(),
            // Before that, the watch may not have seen the own write.
            elapsed => elapsed >= CATCHING_UP && is_changed(),
        };
        if is_due && self.views.is_empty() {
            if std::mem::take(&mut self.was_answered) {
                self.publisher.invalidate();
            }
            self.views.push_back(LifecycleView {
                number,
                lifecycle: self.published.clone(),
                irreconcilable: self.irreconcilable.clone(),
            });
        }
    }

    /// Report the desired config if it changed.
    fn send_desired(&mut self) {
        let Some(node) = &self.node else { return };
        let current = self.views.back().map_or(&self.published, |view| &view.lifecycle).current.as_ref();
        match annotations::desired_config(&node.annotations, &self.seed, current) {
            Some(desired) if self.last_desired.as_ref() != Some(&desired) => {
                self.last_desired = Some(desired.clone());
                self.send(SourceEvent::DesiredChanged(desired));
            }
            None if self.last_desired.is_none() && !self.is_undesired => {
                self.is_undesired = true;
                self.send(SourceEvent::NoDesiredConfig(annotations::NO_DESIRED_CONFIG.to_owned()));
            }
            _ => {}
        }
    }

    /// Report that the drain controller completed the drain or uncordon that the current phase asks for.
    fn send_drain_state(&self) {
        let Some(node) = &self.node else { return };
        let lifecycle = &self.published;
        match &lifecycle.phase {
            DaemonPhase::Draining { target, .. } if annotations::is_drained(&node.annotations, target) => {
                self.send(SourceEvent::Drained(target.clone()));
            }
            DaemonPhase::Uncordoning { .. } => {
                let current = lifecycle.current.as_ref();
                if current.is_some_and(|current| annotations::is_uncordoned(&node.annotations, current)) {
                    self.send(SourceEvent::Uncordoned);
                }
            }
            _ => {}
        }
    }

    /// Start to publish the next view, once the Node was read.
    fn publish(&mut self) -> Option<RunningRequest<PublishResult>> {
        let (node, view) = (self.node.clone()?, self.views.front()?.clone());
        let publisher = self.publisher.clone();
        let (before, seed) = (self.published.clone(), self.seed.clone());
        Some(Box::pin(async move { publisher.publish(view, &before, node, &seed).await.map(Box::new) }))
    }

    fn published(&mut self, published: PublishResult, telling: &mut RetryTimer) {
        match published {
            Ok(published) => {
                let PublishOutcome { view, node, publisher } = *published;
                telling.succeed();
                self.send(SourceEvent::SourceError(None));
                self.publisher = publisher;
                self.views.pop_front();
                if self.published.phase != DaemonPhase::Done && view.lifecycle.phase == DaemonPhase::Done {
                    initial_annotations::retire();
                    // A Node that is created again under this name gets the current config, not the first one.
                    self.seed.clear();
                }
                self.published = view.lifecycle;
                self.irreconcilable = view.irreconcilable;
                self.published_at = Some((view.number, Instant::now()));
                if self.node.as_ref().is_none_or(|seen| seen.version < node.version) {
                    self.keep_node(node);
                    self.written = Some(Instant::now());
                }
                // A change of the desired config is reported before the acknowledgement, on which the daemon
                // starts to change the host.
                self.send_desired();
                self.send(SourceEvent::Published(view.number));
                self.send_drain_state();
                self.look_again();
            }
            Err(error) => {
                if error.is_about_the_connection() {
                    self.cluster.writer.forget_client();
                    self.cluster.reader.forget_client();
                }
                self.publisher.invalidate();
                self.report_error(&error);
                // Views that are outdated already are dropped.
                while self.views.len() > 1 {
                    self.views.pop_front();
                }
                telling.fail(&error);
            }
        }
    }
}

pub(super) async fn next_of<T>(stream: Option<&mut BoxStream<'static, T>>) -> Option<T> {
    match stream {
        Some(stream) => stream.next().await,
        None => std::future::pending().await,
    }
}

async fn running<T>(future: Option<&mut RunningRequest<T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
