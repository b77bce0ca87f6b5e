//! MachineConfigPool of this node, told from the node's labels by the rules of MCO (`GetPoolsForNode`).

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt as _};
use serde::Deserialize;

use crate::cluster::{ClusterClient, ClusterError};

const POOLS: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfigpools";
/// Pool of the control plane, which precedes each other pool.
const MASTER: &str = "master";
/// Pool that each custom pool precedes.
const WORKER: &str = "worker";

#[derive(Debug, Deserialize)]
struct PoolList {
    items: Vec<MachineConfigPool>,
}

#[derive(Debug, Deserialize)]
struct MachineConfigPool {
    metadata: PoolMetadata,
    #[serde(default)]
    spec: PoolSpec,
}

#[derive(Debug, Deserialize)]
struct PoolMetadata {
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PoolSpec {
    node_selector: Option<LabelSelector>,
}

impl MachineConfigPool {
    /// Return true if the pool selects a node with these labels. An empty selector selects no node.
    fn selects(&self, labels: &BTreeMap<String, String>) -> Result<bool, ClusterError> {
        let selector = self.spec.node_selector.clone().unwrap_or_default();
        let selector = Selector::try_from(selector).map_err(|error| {
            ClusterError::UnknownPool(format!(
                "the nodeSelector of the machineconfigpool {} is not valid: {error}",
                self.metadata.name
            ))
        })?;
        Ok(!selector.selects_all() && selector.matches(labels))
    }
}

/// Return the name of the pool that a node with these labels belongs to.
fn pool_of(labels: &BTreeMap<String, String>, pools: &[MachineConfigPool]) -> Result<String, ClusterError> {
    let mut selecting = Vec::new();
    for pool in pools {
        if pool.selects(labels)? {
            selecting.push(pool.metadata.name.as_str());
        }
    }
    let custom: Vec<&str> =
        selecting.iter().copied().filter(|name| ![MASTER, WORKER].contains(name)).collect();
    let pool = match custom.as_slice() {
        [_, _, ..] => {
            let reason = format!("the node's labels match several pools: {}", custom.join(", "));
            return Err(ClusterError::UnknownPool(reason));
        }
        _ if selecting.contains(&MASTER) => Some(MASTER),
        [custom] => Some(*custom),
        [] => selecting.first().copied(),
    };
    pool.map(str::to_owned)
        .ok_or_else(|| ClusterError::UnknownPool("no pool selects the node's labels".to_owned()))
}

impl ClusterClient {
    /// Read the pools, and return the name of the one that a node with these labels belongs to.
    pub(super) async fn pool_of(&self, labels: &BTreeMap<String, String>) -> Result<String, ClusterError> {
        let pools: PoolList = serde_json::from_slice(&self.get(POOLS).await?)
            .map_err(|error| ClusterError::UnknownPool(format!("the list of the pools: {error}")))?;
        pool_of(labels, &pools.items)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pool(name: &str, selector: &Value) -> MachineConfigPool {
        let pool = json!({"metadata": {"name": name}, "spec": {"nodeSelector": selector}});
        serde_json::from_value(pool).unwrap()
    }

    fn role(name: &str) -> MachineConfigPool {
        pool(name, &json!({"matchLabels": {format!("node-role.kubernetes.io/{name}"): ""}}))
    }

    fn chosen(roles: &[&str], pools: &[MachineConfigPool]) -> String {
        let label = |role: &&str| (format!("node-role.kubernetes.io/{role}"), String::new());
        pool_of(&roles.iter().map(label).collect(), pools).unwrap_or_else(|error| error.to_string())
    }

    #[test]
    fn pool_is_chosen_as_mco_chooses_it() {
        let pools = ["worker", "master", "infra", "gpu"].map(role);
        for (roles, expected) in [
            (&["worker"][..], "worker"),
            (&["worker", "infra"], "infra"),
            (&["infra"], "infra"),
            (&["master", "worker"], "master"),
            (&["master", "infra", "worker"], "master"),
        ] {
            assert_eq!(chosen(roles, &pools), expected, "{roles:?}");
        }
        assert!(chosen(&["worker", "infra", "gpu"], &pools).ends_with("several pools: infra, gpu"));
        assert!(chosen(&["storage"], &pools).ends_with("no pool selects the node's labels"));
    }

    #[test]
    fn empty_selector_selects_no_node() {
        for selector in [json!({}), json!({"matchLabels": {}, "matchExpressions": []}), Value::Null] {
            assert!(
                chosen(&["worker"], &[pool("all", &selector)]).ends_with("no pool selects the node's labels")
            );
        }
        let expressions = json!({"matchExpressions": [
            {"key": "node-role.kubernetes.io/worker", "operator": "Exists"},
            {"key": "zone", "operator": "NotIn", "values": ["far"]}]});
        assert_eq!(chosen(&["worker"], &[pool("near", &expressions)]), "near");
        let unknown = json!({"matchExpressions": [{"key": "a", "operator": "Near"}]});
        let said = chosen(&["worker"], &[pool("bad", &unknown)]);
        assert!(said.contains("the nodeSelector of the machineconfigpool bad is not valid"), "{said}");
    }
}
