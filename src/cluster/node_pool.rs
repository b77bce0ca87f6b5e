//! MachineConfigPool of this node, told from the node's labels by the rules of MCO (`GetPoolsForNode`).

use std::collections::{BTreeMap, BTreeSet};

use futures::Stream;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt as _;
use kube::api::{Api, ApiResource, GroupVersionKind, ListParams, NotUsed, Object};
use kube::core::{Selector, SelectorExt as _};
use serde::Deserialize;

use crate::cluster::watch::watch_all;
use crate::cluster::{ClusterClient, ClusterError, GROUP, with_timeout};

/// Pool of the control plane, which precedes each other pool.
const MASTER: &str = "master";
/// Pool that each custom pool precedes.
const WORKER: &str = "worker";

/// The parts of a MachineConfigPool that concern a node.
#[derive(Debug, Clone)]
pub struct NodePool {
    name: String,
    spec: PoolSpec,
}

type PoolObject = Object<PoolSpec, NotUsed>;

impl From<PoolObject> for NodePool {
    fn from(object: PoolObject) -> Self {
        Self { name: object.name_any(), spec: object.spec }
    }
}

impl NodePool {
    /// Read a pool from its object.
    pub(crate) fn parse(object: serde_json::Value) -> Result<Self, serde_json::Error> {
        serde_json::from_value::<PoolObject>(object).map(Self::from)
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Return true if the pool's nodes keep their configs.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.spec.paused
    }

    /// Return the name of the rendered config that the pool's nodes get; `None` while it has none.
    #[must_use]
    pub fn desired(&self) -> Option<&str> {
        self.spec
            .configuration
            .as_ref()
            .and_then(|config| config.name.as_deref())
            .filter(|name| !name.is_empty())
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PoolSpec {
    paused: bool,
    configuration: Option<ConfigReference>,
    node_selector: Option<LabelSelector>,
    /// Pinned image sets of the pool, by name.
    pinned_image_sets: Vec<SetReference>,
}

#[derive(Debug, Clone, Deserialize)]
struct ConfigReference {
    name: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct SetReference {
    name: String,
}

/// Pools that a node belongs to.
#[derive(Debug, Clone)]
pub struct NodePools<'a> {
    /// The pool whose config the node gets.
    pub primary: &'a NodePool,
    /// The pool of workers, where the node's own is a custom one.
    pub worker: Option<&'a NodePool>,
    /// Other pools that select the node.
    pub others: Vec<&'a NodePool>,
}

impl NodePools<'_> {
    /// Return the names of the pinned image sets of all pools, each once.
    #[must_use]
    pub fn pinned_image_sets(&self) -> BTreeSet<&str> {
        let pools = [Some(self.primary), self.worker].into_iter().flatten();
        pools.flat_map(|pool| &pool.spec.pinned_image_sets).map(|set| set.name.as_str()).collect()
    }

    /// Return true if the node is one of the control plane.
    #[must_use]
    pub fn is_control_plane(&self) -> bool {
        self.primary.name == MASTER
    }
}

/// Return true if the pool selects a node with these labels. An empty selector selects no node.
fn selects(pool: &NodePool, labels: &BTreeMap<String, String>) -> Result<bool, ClusterError> {
    let selector = pool.spec.node_selector.clone().unwrap_or_default();
    let selector = Selector::try_from(selector).map_err(|error| {
        ClusterError::UnknownPool(format!(
            "the nodeSelector of the machineconfigpool {} is not valid: {error}",
            pool.name
        ))
    })?;
    Ok(!selector.selects_all() && selector.matches(labels))
}

/// Return the pools that a node with these labels belongs to.
pub fn pools_of<'a>(
    labels: &BTreeMap<String, String>,
    pools: &'a [NodePool],
) -> Result<NodePools<'a>, ClusterError> {
    let mut selecting = Vec::new();
    for pool in pools {
        if selects(pool, labels)? {
            selecting.push(pool);
        }
    }
    let named = |name: &str| selecting.iter().copied().find(|pool| pool.name == name);
    let is_custom = |pool: &&NodePool| ![MASTER, WORKER].contains(&pool.name.as_str());
    let custom: Vec<_> = selecting.iter().copied().filter(is_custom).collect();
    if let [_, _, ..] = custom.as_slice() {
        let custom: Vec<_> = custom.iter().map(|pool| pool.name.as_str()).collect();
        let reason = format!("the node's labels match several pools: {}", custom.join(", "));
        return Err(ClusterError::UnknownPool(reason));
    }
    let custom = custom.first().copied();
    let primary = named(MASTER).or(custom).or_else(|| selecting.first().copied());
    let primary =
        primary.ok_or_else(|| ClusterError::UnknownPool("no pool selects the node's labels".to_owned()))?;
    let worker = named(WORKER).filter(|_| custom.is_some());
    selecting.retain(|pool| pool.name != primary.name);
    Ok(NodePools { primary, worker, others: selecting })
}

impl ClusterClient {
    fn pools(&self) -> Result<Api<PoolObject>, ClusterError> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1", "MachineConfigPool"));
        Ok(Api::all_with(self.reader.client()?, &resource))
    }

    /// Watch the pools: yields all of them at each change. The stream goes on after an error.
    pub fn watch_pools(
        &self,
    ) -> Result<impl Stream<Item = Result<Vec<NodePool>, ClusterError>> + Send + use<>, ClusterError> {
        Ok(watch_all(self.pools()?, NodePool::from))
    }

    /// Read the pools, and return the name of the one that a node with these labels belongs to.
    pub(super) async fn pool_of(&self, labels: &BTreeMap<String, String>) -> Result<String, ClusterError> {
        let pools = with_timeout(self.pools()?.list(&ListParams::default())).await?;
        let pools: Vec<NodePool> = pools.items.into_iter().map(NodePool::from).collect();
        pools_of(labels, &pools).map(|pools| pools.primary.name.clone())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pool(name: &str, selector: &Value) -> NodePool {
        let sets = json!([{"name": format!("of-{name}")}]);
        let spec = json!({"nodeSelector": selector, "pinnedImageSets": sets});
        let pool = json!({"metadata": {"name": name}, "spec": spec});
        serde_json::from_value::<PoolObject>(pool).unwrap().into()
    }

    fn role(name: &str) -> NodePool {
        pool(name, &json!({"matchLabels": {format!("node-role.kubernetes.io/{name}"): ""}}))
    }

    fn labels(roles: &[&str]) -> BTreeMap<String, String> {
        let label = |role: &&str| (format!("node-role.kubernetes.io/{role}"), String::new());
        roles.iter().map(label).collect()
    }

    fn chosen(roles: &[&str], pools: &[NodePool]) -> String {
        let pools = pools_of(&labels(roles), pools);
        pools.map_or_else(|error| error.to_string(), |pools| pools.primary.name.clone())
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
    fn node_has_the_pinned_image_sets_of_its_custom_pool_and_of_the_workers() {
        let pools = ["worker", "master", "infra"].map(role);
        for (roles, expected, is_control_plane) in [
            (&["worker"][..], &["of-worker"][..], false),
            (&["worker", "infra"], &["of-infra", "of-worker"], false),
            (&["infra"], &["of-infra"], false),
            (&["master", "worker"], &["of-master"], true),
        ] {
            let labels = labels(roles);
            let found = pools_of(&labels, &pools).unwrap();
            assert_eq!(found.pinned_image_sets().into_iter().collect::<Vec<_>>(), expected, "{roles:?}");
            assert_eq!(found.is_control_plane(), is_control_plane);
        }
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
