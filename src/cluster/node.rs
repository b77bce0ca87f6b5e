//! This host's Node: watch its metadata, patch its annotations, send events about it.

use std::collections::BTreeMap;

use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::{Event, Node};
use kube::api::{Api, DynamicObject, PartialObjectMeta, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::cluster::watch::watch;
use crate::cluster::{ClusterClient, ClusterError, with_timeout};
use crate::core::daemon::node::annotations::{AnnotationChanges, NodeAnnotations, RETRY};
use crate::core::daemon::node::events::NodeEvent;
use crate::core::daemon::node::node_report::REPORT;

/// Prefix of the annotations of MCO's node protocol.
const OURS: &str = "machineconfiguration.openshift.io/";
/// Event source (MCD's name, which dashboards filter by).
const COMPONENT: &str = "machineconfigdaemon";

/// Metadata of the Node at one resource version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedNode {
    /// UID, which a Node of the same name created later does not share.
    pub uid: String,
    /// Resource version as a number, which grows with each change.
    pub version: u64,
    /// Annotations of MCO's node protocol, and the agent's own.
    pub annotations: NodeAnnotations,
    /// All labels, which decide the node's pool.
    pub labels: BTreeMap<String, String>,
}

impl ObservedNode {
    fn of(meta: PartialObjectMeta<Node>) -> Self {
        let meta = meta.metadata;
        let annotations = meta.annotations.unwrap_or_default().into_iter();
        Self {
            uid: meta.uid.unwrap_or_default(),
            version: meta.resource_version.and_then(|version| version.parse().ok()).unwrap_or_default(),
            annotations: annotations.filter(|(key, _)| is_read(key)).collect(),
            labels: meta.labels.unwrap_or_default(),
        }
    }
}

/// Return the condition `Ready` of a Node; `None` if it has none.
pub(super) fn is_ready(node: &DynamicObject) -> Option<bool> {
    let conditions = node.data.pointer("/status/conditions").and_then(Value::as_array);
    let is_it = |condition: &&Value| condition.get("type") == Some(&Value::from("Ready"));
    let ready = conditions.into_iter().flatten().find(is_it)?;
    Some(ready.get("status") == Some(&Value::from("True")))
}

/// Return true for an annotation that the agent reads.
fn is_read(key: &str) -> bool {
    key.starts_with(OURS) || [REPORT, RETRY].contains(&key)
}

impl ClusterClient {
    /// Watch the Node: yields it at each change, and `None` while it does not exist. The stream goes on after
    /// an error.
    pub fn watch_node(
        &self,
    ) -> Result<impl Stream<Item = Result<Option<ObservedNode>, ClusterError>> + Send + use<>, ClusterError>
    {
        let nodes: Api<PartialObjectMeta<Node>> = Api::all(self.writer.client()?);
        Ok(watch(nodes, &self.node).map(|seen| seen.map(|node| node.map(ObservedNode::of))))
    }

    /// Set or remove these annotations by a merge patch; all others stay.
    pub async fn annotate(&self, changes: &AnnotationChanges) -> Result<ObservedNode, ClusterError> {
        let nodes: Api<PartialObjectMeta<Node>> = Api::all(self.writer.client()?);
        let patch = Patch::Merge(json!({"metadata": {"annotations": changes}}));
        with_timeout(nodes.patch(&self.node, &PatchParams::default(), &patch)).await.map(ObservedNode::of)
    }

    /// Send an event about the Node. Events are informative; no component acts on them.
    pub async fn create_event(&self, node: &ObservedNode, event: &NodeEvent) -> Result<(), ClusterError> {
        let events: Api<Event> = Api::namespaced(self.writer.client()?, &self.namespace);
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
            .map_err(|error| ClusterError::Refused(format!("event at {second} seconds: {error}")))?;
        with_timeout(events.create(&PostParams::default(), &object)).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_is_ready_by_its_condition_only() {
        let ready = |conditions: Value| {
            let node = json!({"metadata": {"name": "a"}, "status": {"conditions": conditions}});
            is_ready(&serde_json::from_value(node).unwrap())
        };
        let with = |status: &str| json!([{"type": "DiskPressure", "status": "True"}, {"type": "Ready", "status": status}]);
        assert_eq!(ready(with("True")), Some(true));
        assert_eq!([with("False"), with("Unknown")].map(ready), [Some(false); 2]);
        assert_eq!(ready(Value::Null), None);
    }
}
