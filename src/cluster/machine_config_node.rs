//! MachineConfigNode of this node: created where it is missing, its status by server-side apply.
//!
//! Controllers of MCO apply the same list of conditions under the same field manager, so that a stale apply
//! would remove their entries. Each apply therefore carries the resource version that it was computed from;
//! after a conflict the caller reads again.

use std::collections::BTreeMap;

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use crate::cluster::{ClusterClient, ClusterError, GROUP, ObservedNode, with_timeout};
use crate::core::daemon::lifecycle::ConfigRef;
use crate::core::daemon::node::annotations::DESIRED_CONFIG;
use crate::core::daemon::node::conditions;
use crate::core::daemon::node::conditions::NodeCondition;
use crate::core::daemon::node::image_set_entries;
use crate::core::daemon::node::image_set_entries::ImageSetEntry;
use crate::core::pinned_images::pin_state::PinState;
use crate::core::plan::irreconcilable_changes::IrreconcilableChange;
use crate::core::values::tree::ChangeKind;

const VERSION: &str = "v1";
const KIND: &str = "MachineConfigNode";
/// Field manager under which MCO's controllers apply these conditions.
const MANAGER: &str = "machine-config-operator";
/// Name of the desired config of a node that has none yet.
const NOT_YET_SET: &str = "not-yet-set";

/// Status of the MachineConfigNode.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeStatus {
    /// Resource version that this was read from.
    pub version: String,
    /// Kubernetes generation of its spec (`metadata.generation`).
    pub generation: i64,
    pub conditions: Vec<NodeCondition>,
    /// True if the cluster reports images, and files and OS image apart (feature gate
    /// `ImageModeStatusReporting`).
    ///
    /// The object tells it: a cluster without the gate has no fields for images, and rejects them.
    pub reports_images: bool,
    /// Current config.
    pub current: Option<NodeConfig>,
    /// Desired config.
    pub desired: Option<NodeConfig>,
    pub image_sets: Vec<ImageSetEntry>,
    /// True if it lists irreconcilable changes.
    pub has_irreconcilable: bool,
    /// Pool in its spec.
    pool: String,
    observed: i64,
}

/// Config of the node as the status has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeConfig {
    /// Name of the MachineConfig.
    pub name: String,
    /// Image of on-cluster layering.
    pub image: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    conditions: Vec<NodeCondition>,
    observed_generation: i64,
    config_version: Versions,
    config_image: Option<Images>,
    pinned_image_sets: Vec<ImageSetEntry>,
    irreconcilable_changes: Vec<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Versions {
    current: Option<String>,
    desired: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Images {
    current_image: Option<String>,
    desired_image: Option<String>,
}

impl NodeConfig {
    fn of(name: Option<String>, image: Option<String>) -> Option<Self> {
        Some(Self { name: name.filter(|name| !name.is_empty())?, image })
    }
}

impl NodeStatus {
    fn of(object: DynamicObject) -> Self {
        let status = object.data.get("status").cloned().unwrap_or(Value::Null);
        let status: Status = serde_json::from_value(status).unwrap_or_default();
        let reports_images = object.data.pointer("/spec/configImage").is_some()
            || status.config_image.is_some()
            || conditions::have_image_types(&status.conditions);
        let (names, images) = (status.config_version, status.config_image.unwrap_or_default());
        Self {
            version: object.metadata.resource_version.unwrap_or_default(),
            generation: object.metadata.generation.unwrap_or(1),
            conditions: status.conditions,
            reports_images,
            current: NodeConfig::of(names.current, images.current_image),
            desired: NodeConfig::of(names.desired, images.desired_image),
            image_sets: status.pinned_image_sets,
            has_irreconcilable: !status.irreconcilable_changes.is_empty(),
            pool: object
                .data
                .pointer("/spec/pool/name")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            observed: status.observed_generation,
        }
    }

    /// Return the status with these members replaced; `None` if it is unchanged. Without a state of pins, the entries for
    /// pinned image sets stay.
    #[must_use]
    pub fn updated(
        &self,
        conditions: Vec<NodeCondition>,
        current: Option<&ConfigRef>,
        desired: Option<&ConfigRef>,
        pins: Option<&PinState>,
    ) -> Option<Self> {
        let config = |config: &ConfigRef| NodeConfig {
            name: config.config.to_string(),
            image: config.image.clone().filter(|_| self.reports_images),
        };
        let current = current.map(config).or_else(|| self.current.clone());
        let desired = desired.map(config).or_else(|| self.desired.clone());
        let image_sets = pins.map_or_else(
            || self.image_sets.clone(),
            |pins| image_set_entries::updated_entries(&self.image_sets, pins),
        );
        let next = Self { conditions, current, desired, image_sets, ..self.clone() };
        (next != *self).then_some(next)
    }

    /// Build the object to apply.
    fn applied(&self, node: &str) -> Value {
        let mut status = Map::new();
        status.insert("conditions".to_owned(), json!(self.conditions));
        // The server rejects a decrease, and MCO's controllers write a value that is one too high.
        let observed = self.generation.max(self.observed).max(1);
        status.insert("observedGeneration".to_owned(), observed.into());
        if !self.image_sets.is_empty() {
            status.insert("pinnedImageSets".to_owned(), json!(self.image_sets));
        }
        let (mut names, mut images) = (Map::new(), Map::new());
        // The server rejects names without the desired one.
        if let Some(desired) = &self.desired {
            for (key, config) in [("current", self.current.as_ref()), ("desired", Some(desired))] {
                let Some(config) = config else { continue };
                names.insert(key.to_owned(), config.name.clone().into());
                images.extend(config.image.clone().map(|image| (format!("{key}Image"), image.into())));
            }
        }
        for (key, members) in [("configVersion", names), ("configImage", images)] {
            if !members.is_empty() {
                status.insert(key.to_owned(), members.into());
            }
        }
        json!({
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "kind": KIND,
            "metadata": {"name": node, "resourceVersion": self.version},
            "status": status,
        })
    }
}

/// Build the entries of `status.irreconcilableChanges`; null without any. The server takes 32 entries with different
/// paths of at most 70 characters, so that a longer path is cut to that of a parent.
fn irreconcilable_entries(changes: &[IrreconcilableChange]) -> Value {
    const MOST_ENTRIES: usize = 32;
    const LONGEST_PATH: usize = 70;
    let is_taken = |path: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"[].".contains(&byte);
        path.len() <= LONGEST_PATH && path.bytes().all(is_plain)
    };
    let mut entries = BTreeMap::new();
    for IrreconcilableChange { field, change } in changes {
        let mut path = field.as_str();
        while !is_taken(path) {
            path = path.rfind(['.', '[']).and_then(|end| path.get(..end)).unwrap_or_default();
        }
        let change = match change {
            ChangeKind::Add => "added",
            ChangeKind::Modify => "modified",
            ChangeKind::Remove => "removed",
        };
        if path.starts_with("spec.") && entries.len() < MOST_ENTRIES {
            entries
                .entry(path)
                .or_insert_with(|| format!("{change} since the installation; values are left out"));
        }
    }
    let entries = entries.into_iter().map(|(path, diff)| json!({"fieldPath": path, "diff": diff}));
    let entries: Vec<Value> = entries.collect();
    if entries.is_empty() { Value::Null } else { entries.into() }
}

impl ClusterClient {
    fn machine_config_nodes(&self) -> Result<Api<DynamicObject>, ClusterError> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, VERSION, KIND));
        Ok(Api::all_with(self.reader.client()?, &resource))
    }

    /// Read the status; `None` if the cluster has no MachineConfigNode for this node.
    pub async fn node_status(&self) -> Result<Option<NodeStatus>, ClusterError> {
        let nodes = self.machine_config_nodes()?;
        Ok(with_timeout(nodes.get_opt(&self.node)).await?.map(NodeStatus::of))
    }

    /// Create the MachineConfigNode as MCO does: named like the Node, owned by it, with its pool.
    ///
    /// Fails with [`ClusterError::UnknownPool`] if the node's pool cannot be told: its controllers create the
    /// object then.
    pub async fn create_machine_config_node(&self, node: &ObservedNode) -> Result<NodeStatus, ClusterError> {
        let pool = self.pool_of(&node.labels).await?;
        let desired = node.annotations.get(DESIRED_CONFIG).map(String::as_str);
        let desired = desired.filter(|name| !name.is_empty()).unwrap_or(NOT_YET_SET);
        let owner = json!({"apiVersion": "v1", "kind": "Node", "name": self.node, "uid": node.uid});
        let object = json!({
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "kind": KIND,
            "metadata": {"name": self.node, "ownerReferences": [owner]},
            "spec": {
                "node": {"name": self.node},
                "pool": {"name": pool},
                "configVersion": {"desired": desired},
            },
        });
        let object = serde_json::from_value(object)
            .map_err(|error| ClusterError::Refused(format!("MachineConfigNode {}: {error}", self.node)))?;
        let nodes = self.machine_config_nodes()?;
        let parameters = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        with_timeout(nodes.create(&parameters, &object)).await.map(NodeStatus::of)
    }

    /// Write the pool of the node's labels to the object that has `status`, if it has another: a node can be given to another
    /// pool. Returns the status then.
    pub async fn report_pool(
        &self,
        node: &ObservedNode,
        status: &NodeStatus,
    ) -> Result<Option<NodeStatus>, ClusterError> {
        let pool = self.pool_of(&node.labels).await?;
        if pool == status.pool {
            return Ok(None);
        }
        log::info!("the node belongs to the pool {pool} now, and not to {}", status.pool);
        let patch = Patch::Merge(json!({"spec": {"pool": {"name": pool}}}));
        let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let patched = self.machine_config_nodes()?;
        let patched = with_timeout(patched.patch(&self.node, &parameters, &patch)).await?;
        Ok(Some(NodeStatus::of(patched)))
    }

    /// Write the changes that only an installation applies, without values; an empty list removes those of before.
    pub async fn report_irreconcilable(
        &self,
        changes: &[IrreconcilableChange],
    ) -> Result<NodeStatus, ClusterError> {
        let nodes = self.machine_config_nodes()?;
        // A merge, not an apply: it removes nothing of the controllers that share the field manager.
        let patch =
            Patch::Merge(json!({"status": {"irreconcilableChanges": irreconcilable_entries(changes)}}));
        let parameters = PatchParams::default();
        with_timeout(nodes.patch_status(&self.node, &parameters, &patch)).await.map(NodeStatus::of)
    }

    /// Apply the status. Fails with [`ClusterError::Conflict`] if the object changed since it was read.
    pub async fn apply_status(&self, status: &NodeStatus) -> Result<NodeStatus, ClusterError> {
        let nodes = self.machine_config_nodes()?;
        let parameters = PatchParams::apply(MANAGER).force();
        let patch = Patch::Apply(status.applied(&self.node));
        with_timeout(nodes.patch_status(&self.node, &parameters, &patch)).await.map(NodeStatus::of)
    }
}
