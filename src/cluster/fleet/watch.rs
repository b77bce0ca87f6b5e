//! Follows the whole fleet: one watch for the Nodes, one for the pools, one for the slots. What is kept of an object is its
//! row, so that the memory does not grow with the size of the objects.

use std::collections::BTreeMap;

use futures::{Stream, StreamExt as _};
use kube::api::DynamicObject;

use crate::cluster::fleet::{FleetClient, ReadNode, read_node, read_pool, slot};
use crate::cluster::leases::GROUP_LABEL;
use crate::cluster::watch::{WatchSelection, WatchedChange, watch_changes};
use crate::cluster::{ClusterError, GROUP, NodePool};
use crate::core::fleet::{FleetNode, FleetSlot};

/// Change of the fleet.
#[derive(Debug)]
pub enum FleetChange {
    Nodes(WatchedChange<Box<ReadNode>>),
    Pools(WatchedChange<NodePool>),
    Slots(WatchedChange<FleetSlot>),
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
    ) -> Result<impl Stream<Item = Result<FleetChange, ClusterError>> + Send + Unpin + use<>, ClusterError>
    {
        let nodes = watch_changes(self.api("", "Node")?, WatchSelection::All, |object| {
            Some(Box::new(read_node(object)))
        });
        let nodes = nodes.map(|change| Ok(FleetChange::Nodes(change?)));
        let pools = watch_changes(self.api(GROUP, "MachineConfigPool")?, WatchSelection::All, read_pool);
        let pools = pools.map(|change| Ok(FleetChange::Pools(change?)));
        let leases = self.api("coordination.k8s.io", "Lease")?;
        let slots = WatchSelection::Labelled(GROUP_LABEL);
        let slots = watch_changes(leases, slots, |lease: DynamicObject| Some(slot(&lease)));
        let slots = slots.map(|change| Ok(FleetChange::Slots(change?)));
        let streams = [nodes.boxed(), paced(pools).boxed(), paced(slots).boxed()];
        Ok(futures::stream::select_all(streams))
    }
}

/// Slow down a watch that fails: it would be repeated at once. A kind that the cluster does not know is no failure.
fn paced<T: Send>(
    stream: impl Stream<Item = Result<T, ClusterError>> + Send,
) -> impl Stream<Item = Result<T, ClusterError>> + Send {
    stream.filter_map(|change| async {
        if change.is_err() {
            tokio::time::sleep(std::time::Duration::from_secs(30)).await;
        }
        match change {
            Err(ClusterError::NotFound(_)) => None,
            change => Some(change),
        }
    })
}
