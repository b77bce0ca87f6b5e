//! Why a Node belongs to its pool, and which config follows from it: the rules of the machine-config-operator in words.

use super::{FleetNode, FleetPool, NodePoolName, NodeRow};
use crate::core::values::foreign_text::harmless_line;

/// Return a sentence for each rule that decides about the Node, by its row in the overview of these pools.
#[must_use]
pub fn pool_rules(node: &FleetNode, row: &NodeRow, pools: &[FleetPool]) -> Vec<String> {
    let name = match &node.pool {
        NodePoolName::Unknown => return Vec::new(),
        NodePoolName::Ambiguous(reason) => {
            return vec![format!(
                "it is in no pool, and keeps its config: {}. Its labels have to suit exactly one pool, besides worker",
                harmless_line(reason)
            )];
        }
        NodePoolName::Named(name) => name,
    };
    let mut told = Vec::new();
    if !node.other_pools.is_empty() {
        told.push(format!(
            "its labels suit {} too: {name} goes before, as {}",
            harmless_line(&node.other_pools.join(" and ")),
            if name == "master" {
                "master does before all others"
            } else {
                "a custom pool does before worker"
            }
        ));
    }
    let Some(pool) = pools.iter().find(|pool| pool.name == *name) else { return told };
    let Some(desired) = &pool.desired else {
        told.push(format!("the pool {name} names no config: the node keeps the one that it has"));
        return told;
    };
    if row.current.as_ref() == Some(desired) {
        return told;
    }
    let desired = harmless_line(desired);
    if pool.is_paused {
        told.push(format!(
            "the pool {name} is paused: the node gets {desired} after `flameholder fleet resume {name}`"
        ));
    } else if row.desired.as_deref() != Some(&desired) {
        told.push(format!("the pool {name} names {desired}, and the node does not follow it yet"));
    }
    if row.is_ready == Some(false) {
        told.push("the node is not Ready: what it reports may be old".to_owned());
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::fleet::{FleetOverview, McoState};

    fn told(node: FleetNode, pool: &FleetPool) -> String {
        let mco = McoState {
            state: Some("Done".into()),
            current: Some("a".into()),
            desired: Some("a".into()),
            reason: None,
        };
        let node = FleetNode { mco, ..node };
        let pools = [pool.clone()];
        let fleet = FleetOverview::of([&node], &pools, &[], None, jiff::Timestamp::UNIX_EPOCH);
        pool_rules(&node, &fleet.nodes[0], &pools).join("; ")
    }

    fn in_pool(pool: &str, others: &[&str]) -> FleetNode {
        let other_pools = others.iter().map(ToString::to_string).collect();
        FleetNode { pool: NodePoolName::Named(pool.into()), other_pools, ..FleetNode::default() }
    }

    fn pool(name: &str, desired: Option<&str>) -> FleetPool {
        FleetPool { name: name.into(), is_paused: false, desired: desired.map(Into::into) }
    }

    #[test]
    fn pool_that_goes_before_others_is_explained() {
        assert_eq!(told(in_pool("worker", &[]), &pool("worker", Some("a"))), "");
        let infra = told(in_pool("infra", &["worker"]), &pool("infra", Some("a")));
        assert_eq!(
            infra,
            "its labels suit worker too: infra goes before, as a custom pool does before worker"
        );
        let master = told(in_pool("master", &["infra", "worker"]), &pool("master", Some("a")));
        assert!(
            master.ends_with("infra and worker too: master goes before, as master does before all others")
        );
        let reason = "the node's labels match several pools: gpu, infra".to_owned();
        let both = FleetNode { pool: NodePoolName::Ambiguous(reason), ..FleetNode::default() };
        assert!(
            told(both, &pool("infra", Some("b"))).starts_with("it is in no pool, and keeps its config: the ")
        );
    }

    #[test]
    fn config_that_a_node_does_not_get_is_explained() {
        let worker = || in_pool("worker", &[]);
        assert_eq!(
            told(worker(), &pool("worker", None)),
            "the pool worker names no config: the node keeps the one that it has"
        );
        let paused = FleetPool { is_paused: true, ..pool("worker", Some("b")) };
        assert!(told(worker(), &paused).ends_with("gets b after `flameholder fleet resume worker`"));
        let down = FleetNode { is_ready: Some(false), ..worker() };
        assert_eq!(
            told(down, &pool("worker", Some("b"))),
            "the pool worker names b, and the node does not follow it yet; the node is not Ready: what it reports may be old"
        );
    }
}
