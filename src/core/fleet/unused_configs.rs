//! Rendered configs that no pool and no node names.

use std::collections::BTreeSet;

use super::{FleetNode, FleetPool, NodePoolName};
use crate::core::values::identifiers::ConfigName;

/// Names of rendered configs begin so.
const RENDERED: &str = "rendered-";

/// Rendered config in the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredConfig {
    pub name: String,
    /// True if a controller owns it, and removes it by itself.
    pub is_owned: bool,
}

/// Nodes of pools that have not reported which configs they have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "nothing is removed: {} {} not reported the configs that {} (see `flameholder fleet`)",
    .0.join(", "),
    if .0.len() == 1 { "has" } else { "have" },
    if .0.len() == 1 { "it names" } else { "they name" }
)]
pub struct SilentNodes(pub Vec<String>);

/// Return the configs that can be removed: rendered ones that no controller owns, and that no pool and no node names.
pub fn unused_configs(
    configs: &[StoredConfig],
    pools: &[FleetPool],
    nodes: &[FleetNode],
) -> Result<Vec<String>, SilentNodes> {
    let mut named: BTreeSet<&str> = pools.iter().filter_map(|pool| pool.desired.as_deref()).collect();
    let mut silent = Vec::new();
    for node in nodes {
        named.extend([&node.mco.desired, &node.mco.current].into_iter().flatten().map(String::as_str));
        match &node.report {
            Some(report) => {
                let blocked = report.blocked.as_ref().map(|blocked| &blocked.config);
                let configs = [report.desired.as_ref(), report.current.as_ref(), blocked];
                named.extend(configs.into_iter().flatten().map(ConfigName::as_str));
            }
            None if node.mco.current.is_none() && matches!(node.pool, NodePoolName::Named(_)) => {
                silent.push(node.name.clone());
            }
            None => {}
        }
    }
    if !silent.is_empty() {
        return Err(SilentNodes(silent));
    }
    let is_unused = |config: &&StoredConfig| {
        !config.is_owned && config.name.starts_with(RENDERED) && !named.contains(config.name.as_str())
    };
    Ok(configs.iter().filter(is_unused).map(|config| config.name.clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::daemon::lifecycle::{ConfigRef, Lifecycle};
    use crate::core::daemon::node::node_report::NodeReport;

    #[test]
    fn config_that_a_pool_or_a_node_names_stays() {
        let config = |name: &str| StoredConfig { name: name.to_owned(), is_owned: name.ends_with("owned") };
        let configs =
            ["rendered-pool", "rendered-node", "rendered-mco", "rendered-old", "rendered-owned", "99-worker"];
        let configs = configs.map(config);
        let pools =
            [FleetPool { name: "worker".into(), is_paused: false, desired: Some("rendered-pool".into()) }];
        let current = Some(ConfigRef { config: "rendered-node".into(), image: None, digest: None });
        let lifecycle = Lifecycle { current, ..Lifecycle::default() };
        let report = NodeReport::of(&lifecycle, None, jiff::Timestamp::UNIX_EPOCH);
        let reporting = FleetNode { name: "a".into(), report: Some(report), ..FleetNode::default() };
        let mut of_mco = FleetNode { name: "b".into(), ..FleetNode::default() };
        of_mco.mco.current = Some("rendered-mco".into());
        let mut nodes = vec![reporting, of_mco, FleetNode { name: "other".into(), ..FleetNode::default() }];
        assert_eq!(unused_configs(&configs, &pools, &nodes), Ok(vec!["rendered-old".to_owned()]));
        nodes.push(FleetNode {
            name: "c".into(),
            pool: NodePoolName::Named("worker".into()),
            ..FleetNode::default()
        });
        let refused = unused_configs(&configs, &pools, &nodes).unwrap_err().to_string();
        assert!(refused.starts_with("nothing is removed: c has not reported"), "{refused}");
    }
}
