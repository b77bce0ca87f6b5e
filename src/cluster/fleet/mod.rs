//! Reads the whole fleet, for a person at any workstation: Nodes, pools, slots of reboot locks, events.

mod watch;

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, PartialObjectMeta, Patch, PatchParams};
use serde_json::{Value, json};
pub use watch::{FleetChange, FleetResource, UnreadResource, WatchedFleet};

use crate::cluster::leases::GROUP_LABEL;
use crate::cluster::node::is_ready;
use crate::cluster::watch::{PIECE, list_by_pieces};
use crate::cluster::{ClusterError, ClusterIdentity, GROUP, NodePool, objects, pools_of, with_timeout};
use crate::core::daemon::node::annotations::{CURRENT_CONFIG, DESIRED_CONFIG, REASON, RETRY, STATE};
use crate::core::daemon::node::node_report::{NodeReport, REPORT};
use crate::core::fleet::{
    FleetCondition, FleetEvent, FleetNode, FleetPool, FleetSlot, McoState, NodePoolName, StoredConfig,
};

/// Client for the fleet.
#[derive(Debug, Clone)]
pub struct FleetClient {
    pub identity: ClusterIdentity,
}

/// Node as it was read, before its pool is known.
#[derive(Debug, Clone)]
pub struct ReadNode {
    node: FleetNode,
    labels: BTreeMap<String, String>,
}

impl ReadNode {
    /// Return the Node with its pool, by the rules of the machine-config-operator.
    #[must_use]
    pub fn in_pools(self, pools: &[NodePool]) -> FleetNode {
        let (pool, other_pools) = match pools_of(&self.labels, pools) {
            Ok(found) => {
                let others = found.others.iter().map(|pool| pool.name().to_owned());
                (NodePoolName::Named(found.primary.name().to_owned()), others.collect())
            }
            Err(_) if pools.is_empty() => (NodePoolName::Unknown, Vec::new()),
            Err(error) => (NodePoolName::Ambiguous(error.to_string()), Vec::new()),
        };
        FleetNode { pool, other_pools, ..self.node }
    }
}

impl FleetClient {
    pub(super) fn api(&self, group: &str, kind: &str) -> Result<Api<DynamicObject>, ClusterError> {
        Ok(objects(self.identity.client()?, group, kind))
    }

    async fn list<T>(
        &self,
        api: &Api<DynamicObject>,
        selected: ListParams,
        keep: impl Fn(DynamicObject) -> T,
    ) -> Result<Vec<T>, ClusterError> {
        let list = |piece: ListParams| async move { api.list(&piece).await };
        Ok(list_by_pieces(selected.limit(PIECE), list, |object| Some(keep(object))).await?.0)
    }

    /// Read all Nodes, in the order of their names.
    pub async fn nodes(&self) -> Result<Vec<ReadNode>, ClusterError> {
        self.list(&self.api("", "Node")?, ListParams::default(), read_node).await
    }

    /// Read one Node, and its conditions.
    pub async fn node(&self, name: &str) -> Result<(ReadNode, Vec<FleetCondition>), ClusterError> {
        let object = with_timeout(self.api("", "Node")?.get(name)).await?;
        let conditions = conditions_of(&object);
        Ok((read_node(object), conditions))
    }

    /// Read the pools; none in a cluster that does not know the kind.
    pub async fn pools(&self) -> Result<Vec<NodePool>, ClusterError> {
        let api = self.api(GROUP, "MachineConfigPool")?;
        match self.list(&api, ListParams::default(), read_pool).await {
            Err(ClusterError::NotFound(_)) => Ok(Vec::new()),
            pools => Ok(pools?.into_iter().flatten().collect()),
        }
    }

    /// Read the version that the cluster runs, by its `ClusterVersion`: the newest that was installed wholly. `None` in a cluster
    /// without one.
    pub async fn cluster_version(&self) -> Result<Option<String>, ClusterError> {
        match with_timeout(self.api("config.openshift.io", "ClusterVersion")?.get("version")).await {
            Ok(object) => Ok(installed_version(&object)),
            Err(ClusterError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Read the slots of reboot locks in all namespaces.
    pub async fn slots(&self) -> Result<Vec<FleetSlot>, ClusterError> {
        let api = self.api("coordination.k8s.io", "Lease")?;
        let mut slots =
            self.list(&api, ListParams::default().labels(GROUP_LABEL), |lease| slot(&lease)).await?;
        slots.sort_by(|one, other| (&one.group, &one.lease).cmp(&(&other.group, &other.lease)));
        Ok(slots)
    }

    /// Read the conditions of the `MachineConfigNode` of a Node; none in a cluster without it.
    pub async fn machine_config_node(&self, name: &str) -> Result<Vec<FleetCondition>, ClusterError> {
        match with_timeout(self.api(GROUP, "MachineConfigNode")?.get(name)).await {
            Ok(object) => Ok(conditions_of(&object)),
            Err(ClusterError::NotFound(_)) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Read the events about a Node.
    pub async fn events(&self, name: &str) -> Result<Vec<FleetEvent>, ClusterError> {
        let about = format!("involvedObject.kind=Node,involvedObject.name={name}");
        self.list(&self.api("", "Event")?, ListParams::default().fields(&about), |object| event(&object))
            .await
    }

    /// Pause or resume a pool.
    pub async fn set_paused(&self, pool: &str, is_paused: bool) -> Result<(), ClusterError> {
        let patch = Patch::Merge(json!({"spec": {"paused": is_paused}}));
        let pools = self.api(GROUP, "MachineConfigPool")?;
        with_timeout(pools.patch(pool, &PatchParams::default(), &patch)).await.map(drop)
    }

    /// List the MachineConfigs, by their metadata.
    pub async fn configs(&self) -> Result<Vec<StoredConfig>, ClusterError> {
        let api = &self.api(GROUP, "MachineConfig")?;
        let stored = |object: PartialObjectMeta<DynamicObject>| {
            let is_owned = !object.owner_references().is_empty();
            Some(StoredConfig { name: object.name_any(), is_owned })
        };
        let list = |piece: ListParams| async move { api.list_metadata(&piece).await };
        Ok(list_by_pieces(ListParams::default().limit(PIECE), list, stored).await?.0)
    }

    /// Remove a MachineConfig.
    pub async fn remove_config(&self, name: &str) -> Result<(), ClusterError> {
        let configs = self.api(GROUP, "MachineConfig")?;
        with_timeout(configs.delete(name, &DeleteParams::default())).await.map(drop)
    }

    /// Ask the agent of a Node to release its blocked target, and to try again.
    pub async fn request_retry(&self, node: &str, request: &str) -> Result<(), ClusterError> {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {RETRY: request}}}));
        let nodes = self.api("", "Node")?;
        with_timeout(nodes.patch(node, &PatchParams::default(), &patch)).await.map(drop)
    }
}

/// Read a pool; none for an object that is not as the kind should be.
pub(super) fn read_pool(object: DynamicObject) -> Option<NodePool> {
    serde_json::to_value(object).ok().and_then(|object| NodePool::parse(object).ok())
}

/// Version of the newest entry of the history that says `Completed`; the newest entry is the first.
fn installed_version(object: &DynamicObject) -> Option<String> {
    let history = object.data.pointer("/status/history")?.as_array()?;
    let installed = history.iter().find(|entry| entry["state"] == "Completed")?;
    installed["version"].as_str().map(str::to_owned)
}

fn text(object: &DynamicObject, pointer: &str) -> Option<String> {
    object.data.pointer(pointer).and_then(Value::as_str).map(str::to_owned)
}

pub(super) fn read_node(object: DynamicObject) -> ReadNode {
    let annotation = |key: &str| object.annotations().get(key).cloned();
    let node = FleetNode {
        name: object.name_any(),
        pool: NodePoolName::Unknown,
        other_pools: Vec::new(),
        is_ready: is_ready(&object),
        is_cordoned: object.data.pointer("/spec/unschedulable") == Some(&Value::Bool(true)),
        os: text(&object, "/status/nodeInfo/osImage").unwrap_or_default(),
        report: annotation(REPORT).and_then(|report| NodeReport::parse(&report)),
        mco: McoState {
            state: annotation(STATE),
            reason: annotation(REASON),
            desired: annotation(DESIRED_CONFIG),
            current: annotation(CURRENT_CONFIG),
        },
    };
    ReadNode { node, labels: object.metadata.labels.unwrap_or_default() }
}

fn conditions_of(object: &DynamicObject) -> Vec<FleetCondition> {
    let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
    let condition = |found: &Value| {
        let text = |key: &str| found.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        FleetCondition {
            kind: text("type"),
            status: text("status"),
            reason: text("reason"),
            message: text("message"),
            since: text("lastTransitionTime").parse().ok(),
        }
    };
    conditions.into_iter().flatten().map(condition).collect()
}

pub(super) fn slot(object: &DynamicObject) -> FleetSlot {
    FleetSlot {
        group: object.labels().get(GROUP_LABEL).cloned().unwrap_or_default(),
        lease: object.name_any(),
        holder: text(object, "/spec/holderIdentity").filter(|holder| !holder.is_empty()),
        renewed: text(object, "/spec/renewTime").and_then(|time| time.parse::<Timestamp>().ok()),
    }
}

fn event(object: &DynamicObject) -> FleetEvent {
    let time = ["/lastTimestamp", "/eventTime"].iter().find_map(|pointer| text(object, pointer));
    FleetEvent {
        time: time.and_then(|time| time.parse().ok()),
        reason: text(object, "/reason").unwrap_or_default(),
        message: text(object, "/message").unwrap_or_default(),
        is_warning: text(object, "/type").as_deref() == Some("Warning"),
        count: object.data.pointer("/count").and_then(Value::as_i64).unwrap_or(1),
    }
}

impl From<&NodePool> for FleetPool {
    fn from(pool: &NodePool) -> Self {
        Self {
            name: pool.name().to_owned(),
            is_paused: pool.is_paused(),
            desired: pool.desired().map(str::to_owned),
        }
    }
}
