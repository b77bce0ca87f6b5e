//! Source `kube` with a pool: the desired config is the one that a `MachineConfigPool` names, in a cluster without the
//! controllers of the machine-config-operator.
//!
//! The [`NodeReporter`](crate::source::node_reporter::NodeReporter) reads the Node, whose labels can decide about the pool, and
//! reports on it. Nothing else of the node protocol is read or written.

use std::collections::BTreeMap;

use futures::StreamExt as _;
use futures::future::OptionFuture;
use futures::stream::BoxStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::watch::Receiver;

use crate::cluster::{ClusterClient, ClusterError, NodePool, pools_of};
use crate::core::config::settings::source::PoolChoice;
use crate::core::daemon::lifecycle::{ConfigRef, Lifecycle};
use crate::source::kube::retry_timer::RetryTimer;
use crate::source::kube::{RunningRequest, next_of};
use crate::source::node_reporter::ReadLabels;
use crate::source::{FetchFailure, FetchedConfig, SourceCommand, SourceEvent};

/// Source of a pool's config.
#[derive(Debug)]
pub struct PoolSource {
    cluster: ClusterClient,
    choice: PoolChoice,
    events: UnboundedSender<SourceEvent>,
    pools: Option<Vec<NodePool>>,
    /// Labels of the Node, which can decide about the pool.
    labels: Receiver<ReadLabels>,
    desired: Option<ConfigRef>,
    /// Reason why no config is desired, as it was reported.
    undesired: Option<String>,
    /// Newest state of the daemon.
    lifecycle: Option<Lifecycle>,
}

impl PoolSource {
    /// Create the source; reports go to `events`.
    #[must_use]
    pub fn new(
        cluster: ClusterClient,
        choice: PoolChoice,
        labels: Receiver<ReadLabels>,
        events: UnboundedSender<SourceEvent>,
    ) -> Self {
        Self { cluster, choice, events, pools: None, labels, desired: None, undesired: None, lifecycle: None }
    }

    /// Run until the daemon drops its end of the command channel.
    pub async fn run(mut self, mut commands: UnboundedReceiver<SourceCommand>) {
        let mut watch: Option<BoxStream<'static, Result<Vec<NodePool>, ClusterError>>> = None;
        let mut watching = RetryTimer::default();
        let mut fetching: Option<RunningRequest<(ConfigRef, Result<FetchedConfig, FetchFailure>)>> = None;
        loop {
            if watch.is_none() && watching.is_due() {
                match self.cluster.watch_pools() {
                    Ok(stream) => watch = Some(stream.boxed()),
                    Err(error) => self.watch_failed(&error, &mut watching),
                }
            }
            tokio::select! {
                biased;
                seen = next_of(watch.as_mut()), if watching.is_due() => match seen {
                    Some(Ok(pools)) => {
                        watching.succeed();
                        self.pools = Some(pools);
                        self.look();
                    }
                    Some(Err(error)) => {
                        if error.is_about_the_connection() {
                            watch = None;
                        }
                        self.watch_failed(&error, &mut watching);
                    }
                    None => watch = None,
                },
                Ok(()) = self.labels.changed() => self.look(),
                Some((desired, fetched)) = OptionFuture::from(fetching.as_mut()) => {
                    fetching = None;
                    self.send(SourceEvent::Fetched(desired, fetched));
                }
                command = commands.recv() => match command {
                    Some(SourceCommand::Publish(view)) => {
                        self.lifecycle = Some(view.lifecycle);
                        self.look();
                    }
                    Some(SourceCommand::Fetch(desired)) => {
                        // Only the newest desired config matters.
                        fetching = Some(Box::pin(fetch(self.cluster.clone(), desired)));
                    }
                    None => return,
                },
                () = watching.wait() => {}
            }
        }
    }

    fn watch_failed(&mut self, error: &ClusterError, watching: &mut RetryTimer) {
        if error.is_about_the_connection() {
            self.cluster.reader.forget_client();
        }
        self.send(SourceEvent::SourceError(Some(error.to_string())));
        watching.fail(error);
    }

    fn send(&self, event: SourceEvent) {
        // The receiver is gone only when the daemon stops.
        drop(self.events.send(event));
    }

    /// Report the desired config if it changed.
    fn look(&mut self) {
        let (Some(pools), Some(lifecycle)) = (&self.pools, &self.lifecycle) else { return };
        // The labels decide: without the Node, the pool is not known.
        let read = self.labels.borrow_and_update().clone();
        let labels = match (&self.choice, read) {
            (PoolChoice::Named(_), _) => BTreeMap::new(),
            (PoolChoice::ByLabels, Some(Ok(labels))) => labels,
            (PoolChoice::ByLabels, Some(Err(reason))) => {
                return self.send(SourceEvent::SourceError(Some(reason)));
            }
            (PoolChoice::ByLabels, None) => return,
        };
        let known = KnownConfigs {
            desired: self.desired.as_ref(),
            blocked: lifecycle.blocked.as_ref().map(|blocked| &blocked.desired),
            current: lifecycle.current.as_ref(),
        };
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
}

/// Configs of which one stays while the pool is paused.
#[derive(Clone, Copy, Default)]
struct KnownConfigs<'a> {
    /// Desired since the daemon was started.
    desired: Option<&'a ConfigRef>,
    /// Blocked after a rollback.
    blocked: Option<&'a ConfigRef>,
    current: Option<&'a ConfigRef>,
}

impl<'a> KnownConfigs<'a> {
    /// Return the config that stays while the pool, which names `named`, is paused. A blocked one that is still named remains
    /// blocked: the current one in its place would release the block and the slot of the reboot lock.
    fn while_paused(self, named: Option<&str>) -> Option<&'a ConfigRef> {
        let blocked = self.blocked.filter(|blocked| named == Some(blocked.config.as_str()));
        self.desired.or(blocked).or(self.current)
    }
}

/// Return the desired config of a node with these labels: that of its pool, or one of the `known` while the pool is paused. The
/// error is the reason why there is none, with the way out.
fn desired_of(
    choice: &PoolChoice,
    pools: &[NodePool],
    labels: &BTreeMap<String, String>,
    known: KnownConfigs<'_>,
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
        let known = known.while_paused(pool.desired()).map(|known| config(known.config.as_str()));
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
        let current = ConfigRef { config: "rendered-a".into(), image: None, digest: Some("sha256:0".into()) };
        let known = KnownConfigs { current: Some(&current), ..KnownConfigs::default() };
        let labels = |roles: &[&str]| {
            roles.iter().map(|role| (format!("node-role.kubernetes.io/{role}"), String::new())).collect()
        };
        let chosen = |choice: &str, roles: &[&str], known| {
            let desired = desired_of(&choice.parse().unwrap(), &pools, &labels(roles), known);
            desired.map(|desired| desired.config.to_string())
        };
        assert_eq!(chosen("worker", &[], known), Ok("rendered-b".into()));
        assert_eq!(chosen("edge", &[], known), Ok("rendered-a".into()));
        assert_eq!(chosen("BY-LABELS", &["worker"], known), Ok("rendered-b".into()));
        assert_eq!(chosen("BY-LABELS", &["worker", "edge"], known), Ok("rendered-a".into()));
        // A daemon that was started anew after a rollback.
        let named = ConfigRef { config: "rendered-b".into(), ..current.clone() };
        let blocked = |blocked| KnownConfigs { blocked: Some(blocked), ..known };
        assert_eq!(chosen("edge", &[], blocked(&named)), Ok("rendered-b".into()));
        let former = ConfigRef { config: "rendered-0".into(), ..current.clone() };
        assert_eq!(chosen("edge", &[], blocked(&former)), Ok("rendered-a".into()));
        for (choice, roles, reason) in [
            ("edge", &[][..], "is paused, and this host has no config yet"),
            ("empty", &[], "names no config: set `spec.configuration.name`"),
            ("gone", &[], "the cluster has no MachineConfigPool gone"),
            ("BY-LABELS", &["other"], "no pool selects the node's labels"),
        ] {
            let refused = chosen(choice, roles, KnownConfigs::default()).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
    }
}
