//! One view told to the cluster: conditions, annotations and events, as few requests as it takes.

use crate::cluster::{ClusterClient, ClusterError, NodeStatus, ObservedNode};
use crate::core::daemon::lifecycle::{ConfigRef, DaemonPhase, Lifecycle};
use crate::core::daemon::node::annotations;
use crate::core::daemon::node::annotations::NodeAnnotations;
use crate::core::daemon::node::{conditions, events};
use crate::source::LifecycleView;

/// How often conditions are made anew because somebody else wrote some.
const CONFLICTS: usize = 5;

/// Tells views one after the other.
#[derive(Debug, Clone)]
pub(super) struct NodePublisher {
    cluster: ClusterClient,
    /// The conditions as they were last seen; `None` where they have to be read.
    status: Option<NodeStatus>,
    /// Whether the cluster has such an object for this node at all.
    has_status: bool,
}

/// What is told, and what came back.
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

    /// What was seen may not hold any more.
    pub(super) fn forget(&mut self) {
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
        // A pool counts a node by its annotations: they come last on the way, and first in the end.
        if !is_done {
            self.tell_conditions(lifecycle).await?;
        }
        let changes = annotations::annotation_changes(lifecycle, &node.annotations, seed);
        let drains = !annotations::is_single_node(&node.annotations);
        if !changes.is_empty() {
            node = self.cluster.annotate(&changes).await?;
        }
        if is_done {
            self.tell_conditions(lifecycle).await?;
        }
        let rests = matches!(lifecycle.phase, DaemonPhase::Uncordoning { .. } | DaemonPhase::Done);
        if !rests || !changes.is_empty() {
            for event in events::events_between(before, lifecycle, drains) {
                if let Err(error) = self.cluster.tell(&node, &event).await {
                    log::debug!("the event {} is lost: {error}", event.reason);
                }
            }
        }
        Ok(PublishOutcome { node, publisher: self, view })
    }

    async fn tell_conditions(&mut self, lifecycle: &Lifecycle) -> Result<(), ClusterError> {
        for _ in 0..CONFLICTS {
            if !self.has_status {
                return Ok(());
            }
            match self.tell_conditions_once(lifecycle).await {
                Err(ClusterError::Conflict(_)) => self.status = None,
                // They are for people. An update does not depend on them.
                Err(
                    error @ (ClusterError::Denied(_) | ClusterError::NotFound(_) | ClusterError::Refused(_)),
                ) => {
                    log::warn!("the conditions of the MachineConfigNode are not written: {error}");
                    self.has_status = false;
                }
                told => return told,
            }
        }
        log::warn!("the conditions of the MachineConfigNode are not written: others write them all the time");
        Ok(())
    }

    async fn tell_conditions_once(&mut self, lifecycle: &Lifecycle) -> Result<(), ClusterError> {
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
        // What is only being fetched may not even exist.
        let is_begun = !matches!(lifecycle.phase, DaemonPhase::Fetching { .. });
        let desired = name(&lifecycle.desired).filter(|_| is_begun);
        let next = status.with(conditions, current.as_deref(), desired.as_deref());
        if let Some(next) = next {
            self.status = Some(self.cluster.apply_status(&next).await?);
        }
        Ok(())
    }
}
