//! Source `kube` with a pool: the desired config is the one that a `MachineConfigPool` names, in a cluster without the
//! controllers of the machine-config-operator.
//!
//! The agent reports on the Node by one annotation, which `flameholder fleet` reads. Nothing else of the node protocol is
//! read or written.

use std::collections::BTreeMap;

use futures::StreamExt as _;
use futures::future::OptionFuture;
use futures::stream::BoxStream;
use jiff::Timestamp;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::cluster::{ClusterClient, ClusterError, NodePool, ObservedNode, pools_of};
use crate::core::config::settings::source::PoolChoice;
use crate::core::daemon::lifecycle::{ConfigRef, Lifecycle};
use crate::core::daemon::node::annotations::RETRY;
use crate::core::daemon::node::node_report::report_changes;
use crate::source::kube::retry_timer::RetryTimer;
use crate::source::kube::{RunningRequest, next_of};
use crate::source::{FetchFailure, FetchedConfig, SourceCommand, SourceEvent};

type Watch<T> = BoxStream<'static, Result<T, ClusterError>>;

/// Source of a pool's config.
#[derive(Debug)]
pub struct PoolSource {
    cluster: ClusterClient,
    choice: PoolChoice,
    events: UnboundedSender<SourceEvent>,
    pools: Option<Vec<NodePool>>,
    node: Option<ObservedNode>,
    desired: Option<ConfigRef>,
    /// Reason why no config is desired, as it was reported.
    undesired: Option<String>,
    /// Newest state of the daemon.
    lifecycle: Option<Lifecycle>,
    /// True if the newest state is not on the Node yet.
    is_behind: bool,
}

/// Next input of the event loop.
enum Next {
    Pools(Vec<NodePool>),
    Node(Option<ObservedNode>),
    /// A watch failed.
    Failed(ClusterError),
    Reported(Result<ObservedNode, ClusterError>),
    Fetched(ConfigRef, Result<FetchedConfig, FetchFailure>),
    Command(Option<SourceCommand>),
    Again,
}

/// Watches of the pools and of the Node.
#[derive(Default)]
struct PoolWatches {
    pools: Option<Watch<Vec<NodePool>>>,
    node: Option<Watch<Option<ObservedNode>>>,
    retry: RetryTimer,
}

impl PoolWatches {
    /// Begin what does not run, unless it failed and has to wait.
    fn begin(&mut self, cluster: &ClusterClient) -> Result<(), ClusterError> {
        if self.retry.is_due() && self.pools.is_none() {
            self.pools = Some(cluster.watch_pools()?.boxed());
        }
        if self.retry.is_due() && self.node.is_none() {
            self.node = Some(cluster.watch_node()?.boxed());
        }
        Ok(())
    }

    fn fail(&mut self, error: &ClusterError) {
        if error.is_about_the_connection() {
            (self.pools, self.node) = (None, None);
        }
        self.retry.fail(error);
    }

    /// Wait for the next change. Cancel safe.
    async fn next(&mut self) -> Next {
        let is_due = self.retry.is_due();
        let seen = tokio::select! {
            seen = next_of(self.pools.as_mut()), if is_due => seen.map(|seen| seen.map(Next::Pools)),
            seen = next_of(self.node.as_mut()), if is_due => seen.map(|seen| seen.map(Next::Node)),
            () = self.retry.wait() => return Next::Again,
        };
        let Some(seen) = seen else {
            // One has ended: both begin anew.
            (self.pools, self.node) = (None, None);
            return Next::Again;
        };
        if seen.is_ok() {
            self.retry.succeed();
        }
        seen.unwrap_or_else(Next::Failed)
    }
}

impl PoolSource {
    /// Create the source; reports go to `events`.
    #[must_use]
    pub fn new(cluster: ClusterClient, choice: PoolChoice, events: UnboundedSender<SourceEvent>) -> Self {
        Self {
            cluster,
            choice,
            events,
            pools: None,
            node: None,
            desired: None,
            undesired: None,
            lifecycle: None,
            is_behind: false,
        }
    }

    /// Run until the daemon drops its end of the command channel.
    pub async fn run(mut self, mut commands: UnboundedReceiver<SourceCommand>) {
        let mut watches = PoolWatches::default();
        let mut reporting = RetryTimer::default();
        let mut report: Option<RunningRequest<Result<ObservedNode, ClusterError>>> = None;
        let mut fetching: Option<RunningRequest<(ConfigRef, Result<FetchedConfig, FetchFailure>)>> = None;
        loop {
            if let Err(error) = watches.begin(&self.cluster) {
                self.watch_failed(&error, &mut watches);
            }
            if report.is_none() && reporting.is_due() {
                report = self.report();
            }
            let next = tokio::select! {
                biased;
                seen = watches.next() => seen,
                Some(reported) = OptionFuture::from(report.as_mut()) => Next::Reported(reported),
                Some((desired, fetched)) = OptionFuture::from(fetching.as_mut()) => Next::Fetched(desired, fetched),
                command = commands.recv() => Next::Command(command),
                () = reporting.wait() => Next::Again,
            };
            match next {
                Next::Pools(pools) => {
                    self.pools = Some(pools);
                    self.look();
                }
                Next::Node(node) => self.node_changed(node),
                Next::Failed(error) => self.watch_failed(&error, &mut watches),
                Next::Reported(reported) => {
                    report = None;
                    self.reported(reported, &mut reporting);
                }
                Next::Fetched(desired, fetched) => {
                    fetching = None;
                    self.send(SourceEvent::Fetched(desired, fetched));
                }
                Next::Command(Some(SourceCommand::Publish(view))) => {
                    self.lifecycle = Some(view.lifecycle);
                    self.is_behind = true;
                    self.look();
                }
                Next::Command(Some(SourceCommand::Fetch(desired))) => {
                    // Only the newest desired config matters.
                    fetching = Some(Box::pin(fetch(self.cluster.clone(), desired)));
                }
                Next::Command(None) => return,
                Next::Again => {}
            }
        }
    }

    fn watch_failed(&mut self, error: &ClusterError, watches: &mut PoolWatches) {
        if error.is_about_the_connection() {
            self.cluster.reader.forget_client();
            self.cluster.writer.forget_client();
        }
        self.send(SourceEvent::SourceError(Some(error.to_string())));
        watches.fail(error);
    }

    fn send(&self, event: SourceEvent) {
        // The receiver is gone only when the daemon stops.
        drop(self.events.send(event));
    }

    fn node_changed(&mut self, node: Option<ObservedNode>) {
        let Some(node) = node else {
            let missing = ClusterError::NotFound(format!("node {}", self.cluster.node));
            return self.send(SourceEvent::SourceError(Some(missing.to_string())));
        };
        if let Some(request) = node.annotations.get(RETRY) {
            self.send(SourceEvent::RetryRequested(request.clone()));
        }
        self.node = Some(node);
        self.look();
    }

    /// Report the desired config if it changed.
    fn look(&mut self) {
        let (Some(pools), Some(lifecycle)) = (&self.pools, &self.lifecycle) else { return };
        // The labels decide: without the Node, the pool is not known.
        let labels = match (&self.choice, &self.node) {
            (PoolChoice::Named(_), _) => BTreeMap::new(),
            (PoolChoice::ByLabels, Some(node)) => node.labels.clone(),
            (PoolChoice::ByLabels, None) => return,
        };
        let known = self.desired.as_ref().or(lifecycle.current.as_ref());
        match desired_of(&self.choice, pools, &labels, known) {
            Ok(desired) => {
                self.send(SourceEvent::SourceError(None));
                self.undesired = None;
                if self.desired.as_ref() != Some(&desired) {
                    self.desired = Some(desired.clone());
                    self.send(SourceEvent::DesiredChanged(desired));
                }
            }
            // The last desired config stays in force.
            Err(reason) if self.desired.is_some() => self.send(SourceEvent::SourceError(Some(reason))),
            Err(reason) if self.undesired.as_ref() != Some(&reason) => {
                self.send(SourceEvent::SourceError(None));
                self.undesired = Some(reason.clone());
                self.send(SourceEvent::NoDesiredConfig(reason));
            }
            Err(_) => {}
        }
    }

    /// Start to report the newest state on the Node, once the Node was read.
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
                self.node = Some(node);
            }
            Err(error) => {
                if error.is_about_the_connection() {
                    self.cluster.writer.forget_client();
                }
                // A report is informative: the update goes on without it.
                log::debug!("the state cannot be reported on the Node: {error}");
                self.is_behind = true;
                reporting.fail(&error);
            }
        }
    }
}

/// Return the desired config of a node with these labels: that of its pool. While the pool is paused, the `known` one stays: that
/// of before, or the current one. The error is the reason why there is none, with the way out.
fn desired_of(
    choice: &PoolChoice,
    pools: &[NodePool],
    labels: &BTreeMap<String, String>,
    known: Option<&ConfigRef>,
) -> Result<ConfigRef, String> {
    let pool = match choice {
        PoolChoice::Named(name) => pools.iter().find(|pool| pool.name() == name.as_str()).ok_or_else(|| {
            format!(
                "the cluster has no MachineConfigPool {name}: create it, or name another one with `pool` in [source]"
            )
        })?,
        PoolChoice::ByLabels => pools_of(labels, pools).map_err(|error| error.to_string())?.primary,
    };
    let name = pool.name();
    let config = |config: &str| ConfigRef { config: config.into(), image: None, digest: None };
    if pool.is_paused() {
        let known = known.map(|known| config(known.config.as_str()));
        return known.ok_or_else(|| {
            format!(
                "the MachineConfigPool {name} is paused, and this host has no config yet: resume the pool"
            )
        });
    }
    pool.desired().map(config).ok_or_else(|| {
        format!(
            "the MachineConfigPool {name} names no config: set `spec.configuration.name` to a rendered one, as `flameholder render` makes it"
        )
    })
}

/// Fetch a config. The cluster has no node disruption policy.
async fn fetch(
    cluster: ClusterClient,
    desired: ConfigRef,
) -> (ConfigRef, Result<FetchedConfig, FetchFailure>) {
    let fetched = cluster.machine_config(desired.config.as_str()).await;
    if fetched.as_ref().is_err_and(ClusterError::is_about_the_connection) {
        cluster.reader.forget_client();
    }
    let fetched = fetched.map(|document| FetchedConfig { document: Some(document), policy: None });
    (desired, fetched.map_err(FetchFailure::from))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pool(name: &str, spec: &Value) -> NodePool {
        NodePool::parse(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
    }

    #[test]
    fn desired_config_is_that_of_the_pool_unless_it_is_paused() {
        let role = |role: &str| json!({"matchLabels": {format!("node-role.kubernetes.io/{role}"): ""}});
        let config = json!({"name": "rendered-b"});
        let pools = [
            pool("worker", &json!({"configuration": config, "nodeSelector": role("worker")})),
            pool("edge", &json!({"configuration": config, "paused": true, "nodeSelector": role("edge")})),
            pool("empty", &json!({})),
        ];
        let known = ConfigRef { config: "rendered-a".into(), image: None, digest: Some("sha256:0".into()) };
        let labels = |roles: &[&str]| {
            roles.iter().map(|role| (format!("node-role.kubernetes.io/{role}"), String::new())).collect()
        };
        let chosen = |choice: &str, roles: &[&str], known| {
            let desired = desired_of(&choice.parse().unwrap(), &pools, &labels(roles), known);
            desired.map(|desired| desired.config.to_string())
        };
        assert_eq!(chosen("worker", &[], Some(&known)), Ok("rendered-b".into()));
        assert_eq!(chosen("edge", &[], Some(&known)), Ok("rendered-a".into()));
        assert_eq!(chosen("BY-LABELS", &["worker"], Some(&known)), Ok("rendered-b".into()));
        assert_eq!(chosen("BY-LABELS", &["worker", "edge"], Some(&known)), Ok("rendered-a".into()));
        for (choice, roles, reason) in [
            ("edge", &[][..], "is paused, and this host has no config yet"),
            ("empty", &[], "names no config: set `spec.configuration.name`"),
            ("gone", &[], "the cluster has no MachineConfigPool gone"),
            ("BY-LABELS", &["other"], "no pool selects the node's labels"),
        ] {
            let refused = chosen(choice, roles, None).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
    }
}
