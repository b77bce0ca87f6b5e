//! Follows the whole fleet: one watch for the Nodes, one for the pools, one for the slots. What is kept of an object is its
//! row, so that the memory does not grow with the size of the objects.

use std::collections::BTreeMap;

use futures::{Stream, StreamExt as _};
use kube::ResourceExt as _;
use kube::api::DynamicObject;

use crate::cluster::fleet::{FleetClient, ReadNode, read_node, read_pool, slot};
use crate::cluster::leases::GROUP_LABEL;
use crate::cluster::watch::{WatchSelection, WatchedChange, watch_changes};
use crate::cluster::{ClusterError, GROUP, NodePool};
use crate::core::fleet::{FleetNode, FleetSlot};

/// Change of the fleet.
#[derive(Debug)]
pub enum FleetChange {
    /// All Nodes, in place of those known before.
    NodesListed(Vec<ReadNode>),
    NodeChanged(Box<ReadNode>),
    NodeDeleted(String),
    /// A change of the pools.
    Pools(ObjectChange<NodePool>),
    /// A change of the slots.
    Slots(ObjectChange<FleetSlot>),
}

/// Change of objects that are few.
#[derive(Debug)]
pub enum ObjectChange<T> {
    Listed(Vec<(String, T)>),
    Changed(String, T),
    Deleted(String),
}

/// The fleet as it is known from its changes.
#[derive(Debug, Default)]
pub struct WatchedFleet {
    nodes: Option<BTreeMap<String, ReadNode>>,
    pools: BTreeMap<String, NodePool>,
    slots: BTreeMap<String, FleetSlot>,
}

impl<T> ObjectChange<T> {
    fn of(change: WatchedChange<DynamicObject>, keep: impl Fn(DynamicObject) -> Option<T>) -> Self {
        let keep = |object: DynamicObject| Some((object.name_any(), keep(object)?));
        match change {
            WatchedChange::Listed(objects) => Self::Listed(objects.into_iter().filter_map(keep).collect()),
            WatchedChange::Deleted(object) => Self::Deleted(object.name_any()),
            WatchedChange::Changed(object) => {
                let name = object.name_any();
                keep(object).map_or(Self::Deleted(name), |(name, kept)| Self::Changed(name, kept))
            }
        }
    }

    fn apply(self, known: &mut BTreeMap<String, T>) {
        match self {
            Self::Listed(objects) => *known = objects.into_iter().collect(),
            Self::Changed(name, object) => drop(known.insert(name, object)),
            Self::Deleted(name) => drop(known.remove(&name)),
        }
    }
}

impl WatchedFleet {
    /// Take a change.
    pub fn take(&mut self, change: FleetChange) {
        match change {
            FleetChange::NodesListed(nodes) => {
                self.nodes = Some(nodes.into_iter().map(|node| (node.name().to_owned(), node)).collect());
            }
            FleetChange::NodeChanged(node) => {
                self.nodes.get_or_insert_default().insert(node.name().to_owned(), *node);
            }
            FleetChange::NodeDeleted(name) => drop(self.nodes.get_or_insert_default().remove(&name)),
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
        nodes.map(|node| node.clone().in_pools(pools)).collect()
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
        let nodes = watch_changes(self.api("", "Node")?, WatchSelection::All).map(|change| {
            Ok(match change? {
                WatchedChange::Listed(objects) => {
                    FleetChange::NodesListed(objects.into_iter().map(read_node).collect())
                }
                WatchedChange::Changed(object) => FleetChange::NodeChanged(Box::new(read_node(object))),
                WatchedChange::Deleted(object) => FleetChange::NodeDeleted(object.name_any()),
            })
        });
        let pools = watch_changes(self.api(GROUP, "MachineConfigPool")?, WatchSelection::All);
        let pools = pools.map(|change| Ok(FleetChange::Pools(ObjectChange::of(change?, read_pool))));
        let slots =
            watch_changes(self.api("coordination.k8s.io", "Lease")?, WatchSelection::Labelled(GROUP_LABEL));
        let slots = slots
            .map(|change| Ok(FleetChange::Slots(ObjectChange::of(change?, |object| Some(slot(&object))))));
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
