//! The node's `MachineConfigNode`. Others write its conditions under the same field manager, each the whole list: so
//! what is applied names the version that it was made from, and is made anew where that is gone.

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cluster::{ClusterClient, ClusterError, with_timeout};
use crate::core::daemon::node::conditions::NodeCondition;

const GROUP: &str = "machineconfiguration.openshift.io";
const VERSION: &str = "v1";
const KIND: &str = "MachineConfigNode";
/// Whom the cluster's other controllers write these conditions as (the reference's).
const MANAGER: &str = "machine-config-operator";

/// What it says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeStatus {
    /// The version that this was read from.
    pub version: String,
    /// The generation of its spec.
    pub generation: i64,
    /// The conditions.
    pub conditions: Vec<NodeCondition>,
    /// The configuration that the node is.
    pub current: Option<String>,
    /// The configuration that is wanted.
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

    /// The same with these instead; `None` where nothing differs.
    #[must_use]
    pub fn with(
        &self,
        conditions: Vec<NodeCondition>,
        current: Option<&str>,
        desired: Option<&str>,
    ) -> Option<Self> {
        let current = current.map(str::to_owned).or_else(|| self.current.clone());
        let desired = desired.map(str::to_owned).or_else(|| self.desired.clone());
        let next = Self { conditions, current, desired, ..self.clone() };
        (next != *self).then_some(next)
    }
}

impl ClusterClient {
    async fn machine_config_nodes(&self) -> Result<Api<DynamicObject>, ClusterError> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, VERSION, KIND));
        Ok(Api::all_with(self.reader.client().await?, &resource))
    }

    /// Reads it; `None` where the cluster has none for this node.
    pub async fn node_status(&self) -> Result<Option<NodeStatus>, ClusterError> {
        let nodes = self.machine_config_nodes().await?;
        Ok(with_timeout(nodes.get_opt(&self.node)).await?.map(NodeStatus::of))
    }

    /// Applies it where nobody changed it since it was read.
    pub async fn apply_status(&self, status: &NodeStatus) -> Result<NodeStatus, ClusterError> {
        let nodes = self.machine_config_nodes().await?;
        let mut object = json!({
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "kind": KIND,
            "metadata": {"name": self.node, "resourceVersion": status.version},
            "status": {
                "conditions": status.conditions,
                // It may not become smaller, and others write one too many.
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
