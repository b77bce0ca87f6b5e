//! Cordon and drain of the host's Node: its `spec.unschedulable`, its pods, and their evictions.

use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::cluster::{ClusterError, ClusterIdentity, objects, with_timeout};
use crate::core::daemon::drain::{NodePod, PodOwner};
use crate::core::values::foreign_text::harmless_line;
use crate::core::values::identifiers::ConfigName;

/// Annotation of a Node that the daemon has cordoned, with the config of the update: only such a one is uncordoned by it.
const CORDONED: &str = "flameholder/cordoned";
/// Annotation of the pods that stand for static ones.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Cause in a refusal of an eviction.
const BUDGET: &str = "DisruptionBudget";

/// Answer to an eviction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvictionAnswer {
    /// The pod is being deleted, or is gone.
    Accepted,
    /// Refused for now, with the reason: a disruption budget by name.
    Refused(String),
}

/// Changes of the Node by others, such as its kubelet, after which a change of it is tried again at once.
const CONFLICTS: u32 = 5;

/// Client for the drain of a Node.
#[derive(Debug, Clone)]
pub struct DrainClient {
    /// Identity that may change the Node, and evict its pods: such as that of its kubelet.
    pub identity: ClusterIdentity,
    /// Name of the Node.
    pub node: String,
}

impl DrainClient {
    /// Return true if the host has the kubeconfig.
    #[must_use]
    pub fn has_kubeconfig(&self) -> bool {
        self.identity.has_kubeconfig()
    }

    /// Read the kubeconfig anew for the next request.
    pub fn forget_client(&self) {
        self.identity.forget_client();
    }

    fn nodes(&self) -> Result<Api<DynamicObject>, ClusterError> {
        Ok(objects(self.identity.client()?, "", "Node"))
    }

    /// Cordon the Node for an update to `config`, unless an operator has cordoned it already.
    pub async fn cordon(&self, config: &ConfigName) -> Result<(), ClusterError> {
        let config = config.as_str();
        let is_right = |node: &DynamicObject| {
            let is_cordoned = node.data.pointer("/spec/unschedulable") == Some(&Value::Bool(true));
            is_cordoned && node.annotations().get(CORDONED).is_none_or(|cordoned| cordoned == config)
        };
        self.change(is_right, &json!(config), &json!(true)).await.map(drop)
    }

    /// Uncordon the Node, if the daemon has cordoned it for another update than one to `kept`.
    pub async fn uncordon(&self, kept: Option<&ConfigName>) -> Result<(), ClusterError> {
        let is_right = |node: &DynamicObject| {
            node.annotations()
                .get(CORDONED)
                .is_none_or(|cordoned| kept.is_some_and(|kept| kept.as_str() == cordoned))
        };
        if self.change(is_right, &Value::Null, &Value::Null).await? {
            log::info!("the node {} is uncordoned", self.node);
        }
        Ok(())
    }

    /// Change the Node unless it is as it should be. If another client changes it meanwhile, it is looked at again. Return true
    /// if it was changed.
    async fn change(
        &self,
        is_right: impl Fn(&DynamicObject) -> bool,
        annotation: &Value,
        unschedulable: &Value,
    ) -> Result<bool, ClusterError> {
        let mut conflicts = 0;
        loop {
            let node = with_timeout(self.nodes()?.get(&self.node)).await?;
            if is_right(&node) {
                return Ok(false);
            }
            let version = node.resource_version().unwrap_or_default();
            let patch = Patch::Merge(json!({
                "metadata": {"resourceVersion": version, "annotations": {CORDONED: annotation}},
                "spec": {"unschedulable": unschedulable},
            }));
            match with_timeout(self.nodes()?.patch(&self.node, &PatchParams::default(), &patch)).await {
                Err(ClusterError::Conflict(_)) if conflicts < CONFLICTS => conflicts += 1,
                changed => return changed.map(|_| true),
            }
        }
    }

    /// List the pods on the Node.
    pub async fn pods(&self) -> Result<Vec<NodePod>, ClusterError> {
        let pods = objects(self.identity.client()?, "", "Pod");
        let selected = ListParams::default().fields(&format!("spec.nodeName={}", self.node));
        let listed = with_timeout(pods.list(&selected)).await?;
        Ok(listed.items.iter().map(node_pod).collect())
    }

    /// Evict a pod: this one, and no later one of the same name.
    pub async fn evict(&self, pod: &NodePod) -> Result<EvictionAnswer, ClusterError> {
        let NodePod { namespace, name, uid, .. } = pod;
        let eviction = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        });
        let request = http::Request::post(format!("/api/v1/namespaces/{namespace}/pods/{name}/eviction"))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(eviction.to_string().into_bytes());
        let request = request.map_err(|error| ClusterError::Refused(error.to_string()))?;
        let client = self.identity.client()?;
        let answer = async {
            match client.request::<Value>(request).await {
                Ok(_) => Ok(EvictionAnswer::Accepted),
                Err(kube::Error::Api(status)) if status.code == 429 => {
                    let causes = status.details.as_ref().map(|details| details.causes.as_slice());
                    let budget = causes.into_iter().flatten().find(|cause| cause.reason == BUDGET);
                    let reason = budget.map_or(&status.message, |budget| &budget.message);
                    Ok(EvictionAnswer::Refused(harmless_line(reason).trim_end_matches('.').to_owned()))
                }
                // Gone, or replaced by another one of its name.
                Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => {
                    Ok(EvictionAnswer::Accepted)
                }
                Err(error) => Err(error),
            }
        };
        with_timeout(answer).await
    }
}

fn node_pod(object: &DynamicObject) -> NodePod {
    let controller = object.owner_references().iter().find(|owner| owner.controller == Some(true));
    let owner = match controller.map(|owner| owner.kind.as_str()) {
        _ if object.annotations().contains_key(MIRROR) => PodOwner::StaticFile,
        Some("DaemonSet") => PodOwner::DaemonSet,
        Some(_) => PodOwner::Other,
        None => PodOwner::Nothing,
    };
    let volumes = object.data.pointer("/spec/volumes").and_then(Value::as_array);
    let phase = object.data.pointer("/status/phase").and_then(Value::as_str);
    NodePod {
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        owner,
        has_empty_dir: volumes.into_iter().flatten().any(|volume| volume.get("emptyDir").is_some()),
        has_ended: matches!(phase, Some("Succeeded" | "Failed")),
        is_terminating: object.metadata.deletion_timestamp.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_and_volumes_of_a_pod_are_read() {
        let pod = |metadata: &Value, spec: Value, phase: &str| {
            let mut metadata = metadata.clone();
            metadata["name"] = "web".into();
            let object = json!({"metadata": metadata, "spec": spec, "status": {"phase": phase}});
            node_pod(&serde_json::from_value(object).unwrap())
        };
        let owned = |kind: &str, controller: bool| {
            let owner = json!({"apiVersion": "apps/v1", "kind": kind, "name": "x", "uid": "1", "controller": controller});
            json!({"ownerReferences": [owner]})
        };
        for (metadata, expected) in [
            (json!({}), PodOwner::Nothing),
            (owned("ReplicaSet", true), PodOwner::Other),
            (owned("ReplicaSet", false), PodOwner::Nothing),
            (owned("DaemonSet", true), PodOwner::DaemonSet),
            (json!({"annotations": {MIRROR: "1"}}), PodOwner::StaticFile),
        ] {
            assert_eq!(pod(&metadata, json!({}), "Running").owner, expected, "{metadata}");
        }
        let scratch = pod(&json!({}), json!({"volumes": [{"name": "a", "emptyDir": {}}]}), "Failed");
        assert!(scratch.has_empty_dir && scratch.has_ended && !scratch.is_terminating);
        let deleted = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert!(pod(&deleted, json!({"volumes": [{"name": "a", "secret": {}}]}), "Running").is_terminating);
    }
}
