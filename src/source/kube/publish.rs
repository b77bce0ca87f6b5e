//! Publication of the daemon's state in the cluster: conditions of the MachineConfigNode, annotations of the
//! Node, events.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::cluster::{ClusterClient, ClusterError, NodeStatus, ObservedNode};
use crate::core::daemon::lifecycle::{DaemonPhase, Lifecycle};
use crate::core::daemon::node::annotations::NodeAnnotations;
use crate::core::daemon::node::{annotations, conditions, events, node_report};
use crate::core::plan::irreconcilable_changes::IrreconcilableChange;
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
    /// Reason why the newest conditions are not written, as it was logged.
    unwritten: Option<String>,
    /// Irreconcilable changes that were last written, or that the cluster did not take; `None` while it may have others.
    irreconcilable: Option<Arc<[IrreconcilableChange]>>,
    /// Labels of the Node whose pool was last compared with that of the MachineConfigNode.
    pooled: Option<BTreeMap<String, String>>,
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
        Self { cluster, status: None, unwritten: None, irreconcilable: None, pooled: None }
    }

    /// Forget the known status.
    pub(super) fn invalidate(&mut self) {
        self.status = None;
    }

    /// Return true if the newest conditions are not written: the MachineConfigNode is missing or rejects them.
    pub(super) fn is_behind(&self) -> bool {
        self.unwritten.is_some()
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
            self.publish_conditions(lifecycle, &node).await?;
        }
        if matches!(lifecycle.phase, DaemonPhase::Preparing { .. }) {
            self.publish_pool(&node).await;
        }
        let mut changes = annotations::annotation_changes(lifecycle, &node.annotations, seed);
        let drains = !annotations::is_single_node(&node.annotations);
        let is_same = changes.is_empty();
        changes.extend(node_report::report_changes(lifecycle, &node.annotations, !is_same, Timestamp::now()));
        if !changes.is_empty() {
            node = self.cluster.annotate(&changes).await?;
        }
        if is_done {
            self.publish_conditions(lifecycle, &node).await?;
            self.publish_irreconcilable(&view.irreconcilable).await;
        }
        // A mere verification of the current config and a repeated attempt change no annotation, and are not
        // worth an event.
        let is_repeatable = matches!(
            lifecycle.phase,
            DaemonPhase::Preparing { .. } | DaemonPhase::Uncordoning { .. } | DaemonPhase::Done
        );
        if !is_repeatable || !is_same {
            for event in events::events_between(before, lifecycle, drains) {
                if let Err(error) = self.cluster.create_event(&node, &event).await {
                    log::debug!("the event {} was not sent: {error}", event.reason);
                }
            }
        }
        Ok(PublishOutcome { node, publisher: self, view })
    }

    /// Write the irreconcilable changes to the MachineConfigNode if they are others than before. Clusters whose objects
    /// have no field for them drop them.
    async fn publish_irreconcilable(&mut self, changes: &Arc<[IrreconcilableChange]>) {
        let Some(status) = &self.status else { return };
        let is_written = match &self.irreconcilable {
            Some(written) => **written == **changes,
            None => changes.is_empty() && !status.has_irreconcilable,
        };
        if is_written {
            return;
        }
        self.irreconcilable = Some(changes.clone());
        match self.cluster.report_irreconcilable(changes).await {
            Ok(status) => self.status = Some(status),
            Err(error) => {
                self.status = None;
                // A request that the server rejects once is rejected again.
                if !matches!(error, ClusterError::Denied(_) | ClusterError::Refused(_)) {
                    self.irreconcilable = None;
                }
                log::warn!(
                    "cannot write the irreconcilable changes to the MachineConfigNode: {}",
                    chain(&error)
                );
            }
        }
    }

    /// Write the pool to the MachineConfigNode if the Node's labels give another; MCD does so with each update.
    async fn publish_pool(&mut self, node: &ObservedNode) {
        let Some(status) = self.status.as_ref().filter(|_| self.pooled.as_ref() != Some(&node.labels)) else {
            return;
        };
        match self.cluster.report_pool(node, status).await {
            Ok(Some(changed)) => self.status = Some(changed),
            // A cluster can do without pools, and a node without one.
            Ok(None) | Err(ClusterError::UnknownPool(_) | ClusterError::NotFound(_)) => {}
            Err(error) => {
                log::warn!("the MachineConfigNode keeps its pool: {}", chain(&error));
                return;
            }
        }
        self.pooled = Some(node.labels.clone());
    }

    async fn publish_conditions(
        &mut self,
        lifecycle: &Lifecycle,
        node: &ObservedNode,
    ) -> Result<(), ClusterError> {
        for _ in 0..CONFLICTS {
            let is_known = self.status.is_some();
            match self.publish_conditions_once(lifecycle, node).await {
                Ok(()) => {
                    if self.unwritten.take().is_some() {
                        log::info!("the conditions of the MachineConfigNode are written again");
                    }
                    return Ok(());
                }
                Err(ClusterError::Conflict(_)) => self.status = None,
                // Deleted since it was read.
                Err(ClusterError::NotFound(_)) if is_known => self.status = None,
                // Conditions are informative: the update goes on without them. The identity that writes them may lack its
                // token until a pod of the cluster hands it over, which must not keep the node cordoned.
                Err(
                    error @ (ClusterError::Denied(_)
                    | ClusterError::Token { .. }
                    | ClusterError::Kubeconfig { .. }
                    | ClusterError::NotFound(_)
                    | ClusterError::Refused(_)
                    | ClusterError::UnknownPool(_)),
                ) => {
                    self.leave_unwritten(chain(&error));
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        self.leave_unwritten(format!("{CONFLICTS} conflicts in a row with other controllers"));
        Ok(())
    }

    /// Log the reason once.
    pub(super) fn leave_unwritten(&mut self, reason: String) {
        self.status = None;
        if self.unwritten.as_ref() != Some(&reason) {
            log::warn!("not writing conditions of the MachineConfigNode, until it accepts them: {reason}");
            self.unwritten = Some(reason);
        }
    }

    /// Read the status of the MachineConfigNode, which is created if it is missing.
    async fn read_or_create(&self, node: &ObservedNode) -> Result<NodeStatus, ClusterError> {
        if let Some(status) = self.cluster.node_status().await? {
            return Ok(status);
        }
        let created = self.cluster.create_machine_config_node(node).await?;
        log::info!("created the MachineConfigNode of this node, which was missing");
        Ok(created)
    }

    /// Write the conditions to the MachineConfigNode.
    async fn publish_conditions_once(
        &mut self,
        lifecycle: &Lifecycle,
        node: &ObservedNode,
    ) -> Result<(), ClusterError> {
        let mut status = match self.status.take() {
            Some(status) => status,
            None => self.read_or_create(node).await?,
        };
        let now = k8s_openapi::jiff::Timestamp::now();
        let now = format!("{}", now.strftime("%Y-%m-%dT%H:%M:%SZ"));
        let reports_images = status.reports_images;
        let conditions = conditions::updated_conditions(&status.conditions, lifecycle, reports_images, &now);
        let current = lifecycle.current.as_ref().filter(|_| lifecycle.phase == DaemonPhase::Done);
        // A config that is not fetched yet may not exist, and the API server rejects the name of such a
        // config.
        let is_begun = !matches!(lifecycle.phase, DaemonPhase::Fetching { .. });
        let desired = lifecycle.desired.as_ref().filter(|_| is_begun);
        let next = |status: &NodeStatus| {
            status.updated(conditions.clone(), current, desired, lifecycle.pins.as_ref())
        };
        if let Some(changed) = next(&status) {
            status = self.cluster.apply_status(&changed).await?;
            // An entry of a pinned image set that was created anew comes once the one before is gone.
            if let Some(changed) = next(&status).filter(|changed| changed.image_sets != status.image_sets) {
                status = self.cluster.apply_status(&changed).await?;
            }
        }
        self.status = Some(status);
        Ok(())
    }
}
