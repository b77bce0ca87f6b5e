//! Status of this node's MachineConfigNode, by server-side apply.
//!
//! Controllers of MCO apply the same list of conditions under the same field manager, so that a stale apply
//! would remove their entries. Each apply therefore carries the resource version that it was computed from;
//! after a conflict the caller reads again.

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cluster::{ClusterClient, ClusterError, with_timeout};
use crate::core::daemon::node::conditions::NodeCondition;
use crate::core::values::identifiers::ConfigName;

const GROUP: &str = "machineconfiguration.openshift.io";
const VERSION: &str = "v1";
const KIND: &str = "MachineConfigNode";
/// Field manager under which MCO's controllers apply these conditions.
const MANAGER: &str = "machine-config-operator";

/// Status of the MachineConfigNode.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeStatus {
    /// Resource version that this was read from.
    pub version: String,
    /// Kubernetes generation of its spec (`metadata.generation`).
    pub generation: i64,
    pub conditions: Vec<NodeCondition>,
    /// Name of the current config.
    pub current: Option<String>,
    /// Name of the desired config.
    pub desired: Option<String>,
    observed: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    conditions: Vec<NodeCondition>,
    observed_generation: i64,
    config_version: Versions,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Versions {
    current: Option<String>,
    desired: Option<String>,
}

impl NodeStatus {
    fn of(object: DynamicObject) -> Self {
        let status = object.data.get("status").cloned().unwrap_or(Value::Null);
        let status: Status = serde_json::from_value(status).unwrap_or_default();
        Self {
            version: object.metadata.resource_version.unwrap_or_default(),
            generation: object.metadata.generation.unwrap_or(1),
            conditions: status.conditions,
            current: status.config_version.current.filter(|name| !name.is_empty()),
            desired: status.config_version.desired,
            observed: status.observed_generation,
        }
    }

    /// Return the status with these members replaced; `None` if it is unchanged.
    #[must_use]
    pub fn updated(
        &self,
        conditions: Vec<NodeCondition>,
        current: Option<&ConfigName>,
        desired: Option<&ConfigName>,
    ) -> Option<Self> {
        let current = current.map(ToString::to_string).or_else(|| self.current.clone());
        let desired = desired.map(ToString::to_string).or_else(|| self.desired.clone());
        let next = Self { conditions, current, desired, ..self.clone() };
        (next != *self).then_some(next)
    }
}

impl ClusterClient {
    async fn machine_config_nodes(&self) -> Result<Api<DynamicObject>, ClusterError> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, VERSION, KIND));
        Ok(Api::all_with(self.reader.client().await?, &resource))
    }

    /// Read the status; `None` if the cluster has no MachineConfigNode for this node.
    pub async fn node_status(&self) -> Result<Option<NodeStatus>, ClusterError> {
        let nodes = self.machine_config_nodes().await?;
        Ok(with_timeout(nodes.get_opt(&self.node)).await?.map(NodeStatus::of))
    }

    /// Apply the status. Fails with [`ClusterError::Conflict`] if the object changed since it was read.
    pub async fn apply_status(&self, status: &NodeStatus) -> Result<NodeStatus, ClusterError> {
        let nodes = self.machine_config_nodes().await?;
        let mut object = json!({
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "kind": KIND,
            "metadata": {"name": self.node, "resourceVersion": status.version},
            "status": {
                "conditions": status.conditions,
                // The server rejects a decrease, and MCO's controllers write a value that is one too high.
                "observedGeneration": status.generation.max(status.observed).max(1),
            },
        });
        if let (Some(desired), Some(object)) = (&status.desired, object.pointer_mut("/status")) {
            object["configVersion"] = match &status.current {
                Some(current) => json!({"current": current, "desired": desired}),
                None => json!({"desired": desired}),
            };
        }
        let parameters = PatchParams::apply(MANAGER).force();
        let patch = Patch::Apply(&object);
        with_timeout(nodes.patch_status(&self.node, &parameters, &patch)).await.map(NodeStatus::of)
    }
}
