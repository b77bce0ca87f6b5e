//! Follows the whole fleet: one watch for the Nodes, one for the pools, one for the slots. The kept part of an object is its
//! row, so that the memory does not grow with the size of the objects.

use std::collections::BTreeMap;
use std::fmt;
use std::future::ready;
use std::time::Duration;

use futures::stream::{BoxStream, unfold};
use futures::{Stream, StreamExt as _};
use kube::api::DynamicObject;
use tokio::time::sleep;

use crate::cluster::fleet::{FleetClient, ReadNode, read_node, read_pool, slot};
use crate::cluster::leases::GROUP_LABEL;
use crate::cluster::watch::{WatchSelection, WatchedChange, watch_changes};
use crate::cluster::{ClusterError, GROUP, NodePool};
use crate::core::fleet::{FleetNode, FleetSlot};

/// Time after which a watch that failed is repeated.
const PAUSE: Duration = Duration::from_secs(10);

/// Change of the fleet.
#[derive(Debug)]
pub enum FleetChange {
    Nodes(WatchedChange<Box<ReadNode>>),
    Pools(WatchedChange<NodePool>),
    Slots(WatchedChange<FleetSlot>),
}

impl FleetChange {
    /// Return the resource that changed.
    #[must_use]
    pub fn resource(&self) -> FleetResource {
        match self {
            Self::Nodes(_) => FleetResource::Nodes,
            Self::Pools(_) => FleetResource::Pools,
            Self::Slots(_) => FleetResource::Slots,
        }
    }
}

/// Resource of which a fleet consists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FleetResource {
    Nodes,
    Pools,
    Slots,
}

impl fmt::Display for FleetResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nodes => "the Nodes",
            Self::Pools => "the pools",
            Self::Slots => "the slots of reboot locks",
        })
    }
}

/// Resource that cannot be read now.
#[derive(Debug, thiserror::Error)]
#[error("{resource} cannot be read")]
pub struct UnreadResource {
    pub resource: FleetResource,
    #[source]
    pub error: ClusterError,
}

/// The fleet as it is known from its changes.
#[derive(Debug, Default)]
pub struct WatchedFleet {
    nodes: Option<BTreeMap<String, Box<ReadNode>>>,
    pools: BTreeMap<String, NodePool>,
    slots: BTreeMap<String, FleetSlot>,
}

impl WatchedFleet {
    /// Take a change.
    pub fn take(&mut self, change: FleetChange) {
        match change {
            FleetChange::Nodes(change) => change.apply(self.nodes.get_or_insert_default()),
            FleetChange::Pools(change) => change.apply(&mut self.pools),
            FleetChange::Slots(change) => change.apply(&mut self.slots),
        }
    }

    /// Return true once the Nodes were listed.
    #[must_use]
    pub fn has_nodes(&self) -> bool {
        self.nodes.is_some()
    }

    /// Return the Nodes in these pools, in the order of their names.
    #[must_use]
    pub fn nodes(&self, pools: &[NodePool]) -> Vec<FleetNode> {
        let nodes = self.nodes.iter().flat_map(BTreeMap::values);
        nodes.map(|node| ReadNode::clone(node).in_pools(pools)).collect()
    }

    #[must_use]
    pub fn pools(&self) -> Vec<NodePool> {
        self.pools.values().cloned().collect()
    }

    #[must_use]
    pub fn slots(&self) -> Vec<FleetSlot> {
        self.slots.values().cloned().collect()
    }
}

impl FleetClient {
    /// Watch Nodes, pools and slots. The stream goes on after an error; kinds that the cluster does not know have no changes.
    pub fn watch(
        &self,
    ) -> Result<impl Stream<Item = Result<FleetChange, UnreadResource>> + Send + Unpin + use<>, ClusterError>
    {
        let nodes = watch_changes(self.api("", "Node")?, WatchSelection::All, |object| {
            Some(Box::new(read_node(object)))
        });
        let pools = watch_changes(self.api(GROUP, "MachineConfigPool")?, WatchSelection::All, read_pool);
        let leases = self.api("coordination.k8s.io", "Lease")?;
        let slots = WatchSelection::Labelled(GROUP_LABEL);
        let slots = watch_changes(leases, slots, |lease: DynamicObject| Some(slot(&lease)));
        Ok(futures::stream::select_all([
            followed(nodes, FleetResource::Nodes, FleetChange::Nodes),
            followed(pools, FleetResource::Pools, FleetChange::Pools),
            followed(slots, FleetResource::Slots, FleetChange::Slots),
        ]))
    }
}

/// Follow a resource. A watch that fails is repeated after a pause. A kind that the cluster does not know is no failure.
fn followed<T: Send + 'static>(
    watch: impl Stream<Item = Result<WatchedChange<T>, ClusterError>> + Send + 'static,
    resource: FleetResource,
    change: fn(WatchedChange<T>) -> FleetChange,
) -> BoxStream<'static, Result<FleetChange, UnreadResource>> {
    let changes = unfold((watch.boxed(), Duration::ZERO), move |(mut watch, pause)| async move {
        sleep(pause).await;
        let seen = watch.next().await?;
        let pause = seen.as_ref().err().map(|error| error.retry_after().max(PAUSE));
        Some((seen, (watch, pause.unwrap_or_default())))
    });
    let is_known = move |seen: &Result<_, ClusterError>| {
        // Every cluster knows Nodes.
        ready(resource == FleetResource::Nodes || !matches!(seen, Err(ClusterError::NotFound(_))))
    };
    let seen = move |seen: Result<_, _>| seen.map(change).map_err(|error| UnreadResource { resource, error });
    changes.filter(is_known).map(seen).boxed()
}
