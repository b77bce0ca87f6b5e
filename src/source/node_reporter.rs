//! Report of the daemon's state on this host's Node, which `flameholder fleet` reads, and requests to retry that come back on it:
//! for nodes without the machine-config-operator, whatever their source.

use std::collections::BTreeMap;

use futures::StreamExt as _;
use futures::future::OptionFuture;
use futures::stream::BoxStream;
use jiff::Timestamp;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::watch::{Receiver, Sender};

use crate::cluster::{ClusterClient, ClusterError, ObservedNode};
use crate::core::daemon::lifecycle::Lifecycle;
use crate::core::daemon::node::annotations::RETRY;
use crate::core::daemon::node::node_report::report_changes;
use crate::source::SourceEvent;
use crate::source::kube::retry_timer::RetryTimer;
use crate::source::kube::{RunningRequest, next_of};

/// Labels of the Node as they were last read: `None` before, and the reason if reading failed so far.
pub type ReadLabels = Option<Result<BTreeMap<String, String>, String>>;

/// Reports on the Node.
#[derive(Debug)]
pub struct NodeReporter {
    cluster: ClusterClient,
    events: UnboundedSender<SourceEvent>,
    labels: Sender<ReadLabels>,
    node: Option<ObservedNode>,
    /// Newest state of the daemon.
    lifecycle: Option<Lifecycle>,
    /// True if the newest state is not on the Node yet.
    is_behind: bool,
    /// Failure as it was logged.
    failure: Option<String>,
}

impl NodeReporter {
    /// Create the reporter; requests to retry go to `events`.
    #[must_use]
    pub fn new(cluster: ClusterClient, events: UnboundedSender<SourceEvent>) -> Self {
        let labels = Sender::default();
        Self { cluster, events, labels, node: None, lifecycle: None, is_behind: false, failure: None }
    }

    /// Return the labels of the Node, as they change.
    #[must_use]
    pub fn labels(&self) -> Receiver<ReadLabels> {
        self.labels.subscribe()
    }

    /// Run until the daemon drops its end of the channel with its states.
    pub async fn run(mut self, mut states: UnboundedReceiver<Lifecycle>) {
        let mut watch: Option<BoxStream<'static, Result<Option<ObservedNode>, ClusterError>>> = None;
        let (mut watching, mut reporting) = (RetryTimer::default(), RetryTimer::default());
        let mut report: Option<RunningRequest<Result<ObservedNode, ClusterError>>> = None;
        loop {
            if watch.is_none() && watching.is_due() {
                match self.cluster.watch_node() {
                    Ok(stream) => watch = Some(stream.boxed()),
                    Err(error) => self.failed(&error, &mut watching),
                }
            }
            if report.is_none() && reporting.is_due() {
                report = self.report();
            }
            tokio::select! {
                biased;
                seen = next_of(watch.as_mut()), if watching.is_due() => match seen {
                    Some(Ok(node)) => {
                        watching.succeed();
                        self.node_changed(node);
                    }
                    Some(Err(error)) => {
                        if error.is_about_the_connection() {
                            watch = None;
                        }
                        self.failed(&error, &mut watching);
                    }
                    None => watch = None,
                },
                Some(reported) = OptionFuture::from(report.as_mut()) => {
                    report = None;
                    self.reported(reported, &mut reporting);
                }
                state = states.recv() => match state {
                    Some(state) => (self.lifecycle, self.is_behind) = (Some(state), true),
                    None => return,
                },
                () = watching.wait() => {}
                () = reporting.wait() => {}
            }
        }
    }

    fn failed(&mut self, error: &ClusterError, watching: &mut RetryTimer) {
        if error.is_about_the_connection() {
            self.cluster.writer.forget_client();
        }
        self.cannot_read(error);
        watching.fail(error);
    }

    /// A report is informative: the update goes on without it, and labels that were read stay in force.
    fn cannot_read(&mut self, error: &ClusterError) {
        self.warn_once(format!("the state is not reported on the Node: {error}"));
        self.labels.send_if_modified(|known| {
            let is_unread = !matches!(known, Some(Ok(_)));
            if is_unread {
                *known = Some(Err(error.to_string()));
            }
            is_unread
        });
    }

    fn warn_once(&mut self, reason: String) {
        if self.failure.as_ref() != Some(&reason) {
            log::warn!("{reason}");
            self.failure = Some(reason);
        }
    }

    fn node_changed(&mut self, node: Option<ObservedNode>) {
        let Some(node) = node else {
            return self.cannot_read(&ClusterError::NotFound(format!("node {}", self.cluster.node)));
        };
        if let Some(request) = node.annotations.get(RETRY) {
            // The receiver is gone only when the daemon stops.
            drop(self.events.send(SourceEvent::RetryRequested(request.clone())));
        }
        let labels = Some(Ok(node.labels.clone()));
        self.labels.send_if_modified(|known| {
            let is_other = *known != labels;
            *known = labels;
            is_other
        });
        self.node = Some(node);
    }

    /// Start to report the newest state, once the Node was read.
    fn report(&mut self) -> Option<RunningRequest<Result<ObservedNode, ClusterError>>> {
        let (node, lifecycle) = (self.node.as_ref()?, self.lifecycle.as_ref()?);
        if !self.is_behind {
            return None;
        }
        self.is_behind = false;
        let changes = report_changes(lifecycle, &node.annotations, false, Timestamp::now());
        if changes.is_empty() {
            return None;
        }
        let cluster = self.cluster.clone();
        Some(Box::pin(async move { cluster.annotate(&changes).await }))
    }

    fn reported(&mut self, reported: Result<ObservedNode, ClusterError>, reporting: &mut RetryTimer) {
        match reported {
            Ok(node) => {
                reporting.succeed();
                self.failure = None;
                self.node = Some(node);
            }
            Err(error) => {
                if error.is_about_the_connection() {
                    self.cluster.writer.forget_client();
                }
                self.warn_once(format!("the state is not reported on the Node: {error}"));
                self.is_behind = true;
                reporting.fail(&error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tokio::sync::mpsc::unbounded_channel;

    use super::*;
    use crate::cluster::{ClusterIdentity, RequestCounts};
    use crate::core::daemon::node::annotations::NodeAnnotations;

    #[test]
    fn labels_that_were_read_outlast_a_failed_watch() {
        let identity = ClusterIdentity::of(Path::new("/none"), RequestCounts::default());
        let (node, namespace) = ("node-7".to_owned(), "default".to_owned());
        let cluster = ClusterClient { node, namespace, reader: identity.clone(), writer: identity };
        let mut reporter = NodeReporter::new(cluster, unbounded_channel().0);
        let labels = reporter.labels();
        reporter.node_changed(None);
        assert!(matches!(&*labels.borrow(), Some(Err(reason)) if reason.contains("node-7")));
        let read = BTreeMap::from([("role".to_owned(), "worker".to_owned())]);
        let node = ObservedNode {
            uid: "1".into(),
            version: 1,
            annotations: NodeAnnotations::new(),
            labels: read.clone(),
        };
        reporter.node_changed(Some(node));
        let failed = ClusterError::ServerError("500".to_owned());
        reporter.failed(&failed, &mut RetryTimer::default());
        assert_eq!(*labels.borrow(), Some(Ok(read)));
    }
}
