//! Releases that the fleet runs, and the verdict of an update graph on each.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::NodeRow;
use super::update_graph::{UpdateGraph, UpdateStep};
use crate::core::values::foreign_text::harmless_line;

/// A release that nodes run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseRow {
    /// Version of the cluster where it has one (`ClusterVersion`), of the operating system elsewhere.
    pub version: String,
    /// Number of nodes.
    pub nodes: usize,
    pub step: ReleaseStep,
    /// Version of the release that follows; null if none does.
    pub next: Option<String>,
    /// Reason why every update goes through the release that follows; null if it is no barrier.
    pub barrier: Option<String>,
    /// Reason why this release is a dead end, or risk of the release that follows.
    pub reason: Option<String>,
}

/// Position of a release in the update graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ReleaseStep {
    /// A release follows.
    Next,
    /// A release follows for some clusters only: it has a risk.
    Conditional,
    /// No release follows, and none is meant to: an operator has to act, as the reason says.
    DeadEnd,
    /// No release follows yet.
    Newest,
    /// The graph does not have the version.
    Unknown,
}

impl ReleaseRow {
    /// Describe the release of the cluster, or without one those of its nodes, by version.
    #[must_use]
    pub fn of_fleet(graph: &UpdateGraph, cluster: Option<&str>, nodes: &[NodeRow]) -> Vec<Self> {
        let (mut systems, mut versions) = (BTreeMap::<&str, usize>::new(), BTreeMap::<&str, usize>::new());
        for node in nodes {
            *systems.entry(&node.os).or_default() += 1;
        }
        // Few systems for many nodes.
        for (os, nodes) in systems {
            *versions.entry(cluster.unwrap_or_else(|| os_version(graph, os))).or_default() += nodes;
        }
        versions.into_iter().map(|(version, nodes)| Self::of(graph, version, nodes)).collect()
    }

    fn of(graph: &UpdateGraph, version: &str, nodes: usize) -> Self {
        let line = |text: &str| Some(harmless_line(text).into_owned());
        let (step, next, reason) = match graph.step_from(version) {
            UpdateStep::Next(next) => (ReleaseStep::Next, Some(next), None),
            UpdateStep::Conditional { release, risk } => {
                (ReleaseStep::Conditional, Some(release), line(risk))
            }
            UpdateStep::DeadEnd(reason) => (ReleaseStep::DeadEnd, None, line(reason)),
            UpdateStep::Newest => (ReleaseStep::Newest, None, None),
            UpdateStep::Unknown => (ReleaseStep::Unknown, None, None),
        };
        Self {
            version: harmless_line(version).into_owned(),
            nodes,
            step,
            next: next.and_then(|next| line(&next.version)),
            barrier: next.and_then(|next| line(next.barrier.as_deref()?)),
            reason,
        }
    }
}

/// Version in the name that a Node gives its operating system, such as `Fedora CoreOS 42.20250701.3.0`: the word that the graph has
/// as a version; the whole name if it has none.
fn os_version<'a>(graph: &UpdateGraph, os: &'a str) -> &'a str {
    os.split_whitespace().find(|word| graph.release(word).is_some()).unwrap_or(os)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::core::fleet::{FleetNode, FleetOverview};

    fn rows(cluster: Option<&str>) -> Vec<ReleaseRow> {
        let node = |version: &str, metadata: &serde_json::Value| json!({"version": version, "payload": format!("quay.io/os@{version}"), "metadata": metadata});
        let barrier = json!({
            "org.fedoraproject.coreos.updates.barrier": "true",
            "org.fedoraproject.coreos.updates.barrier_reason": "new boot\u{1b} loader",
        });
        let dead_end = json!({
            "org.fedoraproject.coreos.updates.deadend": "true",
            "org.fedoraproject.coreos.updates.deadend_reason": "no network",
        });
        let document = json!({
            "nodes": [node("41.1", &json!({})), node("42.1", &barrier), node("40.9", &dead_end)],
            "edges": [[0, 1]],
        });
        let graph = UpdateGraph::parse(document.to_string().as_bytes()).unwrap();
        let os = ["CoreOS 41.1 (Test)", "CoreOS 41.1 (Test)", "CoreOS 42.1", "CoreOS 40.9", "Other 7"];
        let nodes = os.map(|os| FleetNode { name: os.into(), os: os.into(), ..FleetNode::default() });
        let fleet = FleetOverview::of(&nodes, &[], &[], None, jiff::Timestamp::UNIX_EPOCH);
        ReleaseRow::of_fleet(&graph, cluster, &fleet.nodes)
    }

    #[test]
    fn each_version_of_the_nodes_has_its_step() {
        let rows = rows(None);
        let told: Vec<_> = rows.iter().map(|row| (row.version.as_str(), row.nodes, row.step)).collect();
        let expected = [
            ("40.9", 1, ReleaseStep::DeadEnd),
            ("41.1", 2, ReleaseStep::Next),
            ("42.1", 1, ReleaseStep::Newest),
            ("Other 7", 1, ReleaseStep::Unknown),
        ];
        assert_eq!(told, expected);
        assert_eq!(rows[0].reason.as_deref(), Some("no network"));
        let next = (rows[1].next.as_deref(), rows[1].barrier.as_deref());
        assert_eq!(next, (Some("42.1"), Some("new boot\u{fffd} loader")));
    }

    #[test]
    fn version_of_the_cluster_counts_for_all_its_nodes() {
        let rows = rows(Some("41.1"));
        assert_eq!((rows.len(), rows[0].nodes, rows[0].next.as_deref()), (1, 5, Some("42.1")));
    }
}
