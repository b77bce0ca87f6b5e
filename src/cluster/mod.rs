//! The cluster's API server, as this node speaks to it: its own objects by name, and what they name.

mod error;
mod identity;
pub mod introduction;
mod machine_config;
mod machine_config_node;
mod node;
mod watch;

pub use error::ClusterError;
pub use identity::ClusterIdentity;
pub use machine_config_node::NodeStatus;
pub use node::ObservedNode;

use std::time::Duration;

/// Long enough for an API server that is busy: whoever does not answer by then is asked again later.
const ANSWER: Duration = Duration::from_secs(30);

/// This node's place in a cluster.
#[derive(Debug, Clone)]
pub struct ClusterClient {
    /// The node's name.
    pub node: String,
    /// The namespace that events go to.
    pub namespace: String,
    /// Who reads.
    pub reader: ClusterIdentity,
    /// Who writes to the node, and reads it.
    pub writer: ClusterIdentity,
}

/// Waits for an answer no longer than is sensible.
async fn with_timeout<T>(call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, ClusterError> {
    match tokio::time::timeout(ANSWER, call).await {
        Ok(answer) => answer.map_err(ClusterError::from),
        Err(_) => Err(ClusterError::TimedOut(ANSWER)),
    }
}
