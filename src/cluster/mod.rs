//! Client of the cluster's API server: watch and annotate this Node, read MachineConfigs, trust material, pinned
//! image sets and the disruption policy, create and write the MachineConfigNode, send events, hold Leases, drain the Node.

mod connection;
mod controller_config;
mod drain;
mod error;
mod fleet;
pub mod introduction;
mod leases;
mod machine_config;
mod machine_config_node;
mod node;
mod node_pool;
mod pinned_image_sets;
mod watch;

use std::time::Duration;

pub use connection::{BusyServer, ClusterIdentity, RequestCounts};
pub use controller_config::ControllerTrust;
pub use drain::{DrainClient, EvictionAnswer};
pub use error::ClusterError;
pub use fleet::{FleetChange, FleetClient, FleetResource, ReadNode, UnreadResource, WatchedFleet};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
pub use leases::LeaseClient;
pub use machine_config_node::NodeStatus;
pub use node::ObservedNode;
pub use node_pool::{NodePool, NodePools, pools_of};

/// API group of the machine-config-operator's resources.
const GROUP: &str = "machineconfiguration.openshift.io";
/// Deadline of a request; long enough for a busy API server. Callers retry.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// This node's identities and names in its cluster.
#[derive(Debug, Clone)]
pub struct ClusterClient {
    /// Name of the Node.
    pub node: String,
    /// Namespace of events.
    pub namespace: String,
    /// Identity that reads configs and writes the MachineConfigNode.
    pub reader: ClusterIdentity,
    /// Identity that watches and annotates the Node, and sends events.
    pub writer: ClusterIdentity,
}

/// Return the API of a kind in version 1, in all namespaces, for objects of which only some fields are read.
fn objects(client: Client, group: &str, kind: &str) -> Api<DynamicObject> {
    Api::all_with(client, &ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind)))
}

/// Wait for an answer until the deadline.
async fn with_timeout<T>(call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, ClusterError> {
    match tokio::time::timeout(REQUEST_TIMEOUT, call).await {
        Ok(answer) => answer.map_err(ClusterError::from),
        Err(_) => Err(ClusterError::TimedOut(REQUEST_TIMEOUT)),
    }
}
