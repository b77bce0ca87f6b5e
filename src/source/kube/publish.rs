//! Publication of the daemon's state in the cluster: conditions of the MachineConfigNode, annotations of the
//! Node, events.

use crate::cluster::{ClusterClient, ClusterError, NodeStatus, ObservedNode};
use crate::core::daemon::lifecycle::{ConfigRef, DaemonPhase, Lifecycle};
use crate::core::daemon::node::annotations::NodeAnnotations;
use crate::core::daemon::node::{annotations, conditions, events};
use crate::core::values::causes::chain;
use crate::source::LifecycleView;

/// Attempts to write conditions while other controllers change them.
const CONFLICTS: usize = 5;

/// Publishes one view after the other.
#[derive(Debug, Clone)]
pub(super) struct NodePublisher {
    cluster: ClusterClient,
    /// Last known status of the MachineConfigNode; `None` if it has to be read.
    status: Option<NodeStatus>,
    /// True if the cluster has a MachineConfigNode for this node and accepts its conditions.
    has_status: bool,
}

/// Published view, and the Node that the API server returned.
#[derive(Debug)]
pub(super) struct PublishOutcome {
    pub(super) view: LifecycleView,
    pub(super) node: ObservedNode,
    pub(super) publisher: NodePublisher,
}

impl NodePublisher {
    pub(super) fn new(cluster: ClusterClient) -> Self {
        Self { cluster, status: None, has_status: true }
    }

    /// Forget the known status, and try to write conditions again.
    pub(super) fn invalidate(&mut self) {
        (self.status, self.has_status) = (None, true);
    }

    pub(super) async fn publish(
        mut self,
        view: LifecycleView,
        before: &Lifecycle,
        mut node: ObservedNode,
        seed: &NodeAnnotations,
    ) -> Result<PublishOutcome, ClusterError> {
        let lifecycle = &view.lifecycle;
        let is_done = lifecycle.phase == DaemonPhase::Done;
        // MachineConfigPools count nodes by their annotations: these are written after the conditions during
        // an update, and before them when it is done.
        if !is_done {
            self.publish_conditions(lifecycle).await?;
        }
        let changes = annotations::annotation_changes(lifecycle, &node.annotations, seed);
        let drains = !annotations::is_single_node(&node.annotations);
        if !changes.is_empty() {
            node = self.cluster.annotate(&changes).await?;
        }
        if is_done {
            self.publish_conditions(lifecycle).await?;
        }
        // A mere verification of the current config and a repeated attempt change no annotation, and are not
        // worth an event.
        let is_repeatable = matches!(
            lifecycle.phase,
            DaemonPhase::Preparing { .. } | DaemonPhase::Uncordoning { .. } | DaemonPhase::Done
        );
        if !is_repeatable || !changes.is_empty() {
            for event in events::events_between(before, lifecycle, drains) {
                if let Err(error) = self.cluster.create_event(&node, &event).await {
                    log::debug!("the event {} was not sent: {error}", event.reason);
                }
            }
        }
        Ok(PublishOutcome { node, publisher: self, view })
    }

    async fn publish_conditions(&mut self, lifecycle: &Lifecycle) -> Result<(), ClusterError> {
        for _ in 0..CONFLICTS {
            if !self.has_status {
                return Ok(());
            }
            match self.publish_conditions_once(lifecycle).await {
                Err(ClusterError::Conflict(_)) => self.status = None,
                // Conditions are informative: the update goes on without them.
                Err(
                    error @ (ClusterError::Denied(_) | ClusterError::NotFound(_) | ClusterError::Refused(_)),
                ) => {
                    log::warn!(
                        "not writing conditions of the MachineConfigNode: {error}",
                        error = chain(&error)
                    );
                    self.has_status = false;
                }
                told => return told,
            }
        }
        log::warn!(
            "not writing conditions of the MachineConfigNode: {CONFLICTS} conflicts in a row with other controllers"
        );
        Ok(())
    }

    async fn publish_conditions_once(&mut self, lifecycle: &Lifecycle) -> Result<(), ClusterError> {
        if self.status.is_none() {
            self.status = self.cluster.node_status().await?;
        }
        let Some(status) = &self.status else {
            self.has_status = false;
            return Ok(());
        };
        let now = k8s_openapi::jiff::Timestamp::now();
        let now = format!("{}", now.strftime("%Y-%m-%dT%H:%M:%SZ"));
        let conditions = conditions::updated_conditions(&status.conditions, lifecycle, &now);
        let name = |desired: &Option<ConfigRef>| desired.as_ref().map(|desired| desired.config.clone());
        let current = name(&lifecycle.current).filter(|_| lifecycle.phase == DaemonPhase::Done);
        // A config that is not fetched yet may not exist, and the API server rejects the name of such a
        // config.
        let is_begun = !matches!(lifecycle.phase, DaemonPhase::Fetching { .. });
        let desired = name(&lifecycle.desired).filter(|_| is_begun);
        let next = status.updated(conditions, current.as_ref(), desired.as_ref());
        if let Some(next) = next {
            self.status = Some(self.cluster.apply_status(&next).await?);
        }
        Ok(())
    }
}
