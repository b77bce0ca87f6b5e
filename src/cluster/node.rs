//! This node's own object: only its metadata, which is all that the protocol needs.

use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::{Event, Node};
use kube::api::{Api, PartialObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::cluster::watch::watch;
use crate::cluster::{ClusterClient, ClusterError, with_timeout};
use crate::core::daemon::node::annotations::{AnnotationChanges, NodeAnnotations};
use crate::core::daemon::node::events::NodeEvent;

/// The annotations of the protocol begin so.
const OURS: &str = "machineconfiguration.openshift.io/";
/// Whom events come from (the reference's name, which dashboards know).
const COMPONENT: &str = "machineconfigdaemon";

/// The node as it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedNode {
    /// Its own name for all time.
    pub uid: String,
    /// Later versions have greater numbers.
    pub version: u64,
    /// The protocol's annotations.
    pub annotations: NodeAnnotations,
}

impl ObservedNode {
    fn of(meta: PartialObjectMeta<Node>) -> Self {
        let meta = meta.metadata;
        let annotations = meta.annotations.unwrap_or_default().into_iter();
        Self {
            uid: meta.uid.unwrap_or_default(),
            version: meta.resource_version.and_then(|version| version.parse().ok()).unwrap_or_default(),
            annotations: annotations.filter(|(key, _)| key.starts_with(OURS)).collect(),
        }
    }
}

impl ClusterClient {
    /// The node whenever it changes, and `None` while there is none. After an error it goes on, once it is asked again.
    pub async fn watch_node(
        &self,
    ) -> Result<impl Stream<Item = Result<Option<ObservedNode>, ClusterError>> + Send + use<>, ClusterError>
    {
        let nodes: Api<PartialObjectMeta<Node>> = Api::all(self.writer.client().await?);
        Ok(watch(nodes, &self.node).map(|seen| seen.map(|node| node.map(ObservedNode::of))))
    }

    /// Changes these annotations and no others.
    pub async fn annotate(&self, changes: &AnnotationChanges) -> Result<ObservedNode, ClusterError> {
        let nodes: Api<PartialObjectMeta<Node>> = Api::all(self.writer.client().await?);
        let patch = Patch::Merge(json!({"metadata": {"annotations": changes}}));
        with_timeout(nodes.patch(&self.node, &PatchParams::default(), &patch)).await.map(ObservedNode::of)
    }

    /// Tells what happened. Nothing depends on it but what people are told.
    pub async fn tell(&self, node: &ObservedNode, event: &NodeEvent) -> Result<(), ClusterError> {
        let events: Api<Event> = Api::namespaced(self.writer.client().await?, &self.namespace);
        let now = k8s_openapi::jiff::Timestamp::now();
        let (second, name) = (now.as_second(), &self.node);
        let time = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now);
        let object = json!({
            "metadata": {"generateName": format!("{name}."), "namespace": self.namespace},
            "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.uid},
            "reason": event.reason,
            "message": event.message,
            "type": if event.is_warning { "Warning" } else { "Normal" },
            "source": {"component": COMPONENT, "host": name},
            "reportingComponent": COMPONENT,
            "reportingInstance": name,
            "count": 1,
            "firstTimestamp": time,
            "lastTimestamp": time,
        });
        let object = serde_json::from_value(object)
            .map_err(|error| ClusterError::Refused(format!("an event of {second}: {error}")))?;
        with_timeout(events.create(&PostParams::default(), &object)).await.map(drop)
    }
}
