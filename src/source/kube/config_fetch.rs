//! Fetch of a MachineConfig from the cluster, with the node disruption policy.

use crate::cluster::{ClusterClient, ClusterError};
use crate::core::daemon::lifecycle::{ConfigRef, DaemonProblem, ProblemClass};
use crate::source::{FetchFailure, FetchedConfig};

/// Fetch a config, and the node disruption policy.
pub(super) async fn fetch(
    cluster: ClusterClient,
    desired: ConfigRef,
) -> (ConfigRef, Result<FetchedConfig, FetchFailure>) {
    let delivered = async {
        let document = cluster.machine_config(desired.config.as_str()).await?;
        Ok(FetchedConfig { document: Some(document), policy: cluster.disruption_policy().await? })
    };
    let delivered: Result<FetchedConfig, ClusterError> = delivered.await;
    if delivered.as_ref().is_err_and(ClusterError::is_about_the_connection) {
        cluster.reader.forget_client();
    }
    let delivered = delivered.map_err(FetchFailure::from).and_then(|delivery| {
        let is_settled = delivery.policy.as_deref().is_none_or(is_policy_observed);
        let reason =
            "the machine-config-operator has not processed the newest node disruption policy yet".to_owned();
        let problem = DaemonProblem { class: ProblemClass::Transient, reason };
        if is_settled { Ok(delivery) } else { Err(problem.into()) }
    });
    (desired, delivered)
}

/// Return true if the operator has processed the newest generation of the policy.
fn is_policy_observed(policy: &[u8]) -> bool {
    let Ok(policy) = serde_json::from_slice::<serde_json::Value>(policy) else { return true };
    let number = |pointer| policy.pointer(pointer).and_then(serde_json::Value::as_i64);
    number("/status/observedGeneration")
        .is_some_and(|observed| number("/metadata/generation") == Some(observed))
}
