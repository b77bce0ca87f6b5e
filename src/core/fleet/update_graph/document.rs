//! JSON of an update graph (Cincinnati's `v1/graph`), which may be hostile.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::{GraphRelease, ReleaseImage};

/// Prefix of the keys of Fedora CoreOS.
const COREOS: &str = "org.fedoraproject.coreos.";
/// Most releases of a graph.
const RELEASES: usize = 20_000;

/// Releases and the updates between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateGraph {
    pub(super) releases: Vec<GraphRelease>,
    /// Numbers of the releases that an update leads from and to.
    pub(super) edges: Vec<(usize, usize)>,
    pub(super) risks: Vec<UpdateRisk>,
}

/// Update that suits some clusters only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UpdateRisk {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) name: String,
}

/// Unusable graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpdateGraphError {
    #[error("it is no update graph ({0}); expected the JSON that a server sends for /v1/graph")]
    Malformed(String),
    #[error("it has {0} releases; the limit is {RELEASES}")]
    Releases(usize),
    #[error("it has the version {0:?} twice")]
    Duplicate(String),
    #[error("its update from release {0} to release {1} names a release that it does not have")]
    Edge(usize, usize),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GraphDocument {
    nodes: Vec<NodeDocument>,
    #[serde(default)]
    edges: Vec<(usize, usize)>,
    #[serde(default)]
    conditional_edges: Option<Vec<ConditionalDocument>>,
}

#[derive(Deserialize)]
struct NodeDocument {
    version: String,
    payload: String,
    #[serde(default)]
    metadata: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct ConditionalDocument {
    edges: Vec<ConditionalEdge>,
    risks: Vec<RiskDocument>,
}

#[derive(Deserialize)]
struct ConditionalEdge {
    from: String,
    to: String,
}

#[derive(Deserialize)]
struct RiskDocument {
    name: String,
}

impl UpdateGraph {
    /// Parse a graph, and refuse one that contradicts itself.
    pub fn parse(bytes: &[u8]) -> Result<Self, UpdateGraphError> {
        let document: GraphDocument =
            serde_json::from_slice(bytes).map_err(|error| UpdateGraphError::Malformed(error.to_string()))?;
        let count = document.nodes.len();
        if count > RELEASES {
            return Err(UpdateGraphError::Releases(count));
        }
        if let Some((from, to)) = document.edges.iter().find(|(from, to)| *from >= count || *to >= count) {
            return Err(UpdateGraphError::Edge(*from, *to));
        }
        let mut versions = BTreeSet::new();
        if let Some(twice) = document.nodes.iter().find(|node| !versions.insert(node.version.as_str())) {
            return Err(UpdateGraphError::Duplicate(twice.version.clone()));
        }
        let conditional = document.conditional_edges.into_iter().flatten();
        let risks = conditional.flat_map(|ConditionalDocument { edges, risks }| {
            let names: Vec<_> = risks.into_iter().map(|risk| risk.name).collect();
            let name = names.join(", ");
            edges.into_iter().map(move |ConditionalEdge { from, to }| UpdateRisk {
                from,
                to,
                name: name.clone(),
            })
        });
        Ok(Self {
            edges: document.edges,
            risks: risks.collect(),
            releases: document.nodes.into_iter().map(NodeDocument::read).collect(),
        })
    }
}

impl NodeDocument {
    fn read(self) -> GraphRelease {
        let metadata = self.metadata.unwrap_or_default();
        let value = |key: &str| metadata.get(&format!("{COREOS}{key}")).map(String::as_str);
        // The reason is there only where its mark is.
        let marked = |mark: &str| {
            let reason = value(&format!("updates.{mark}_reason")).unwrap_or("the server tells no reason");
            (value(&format!("updates.{mark}")) == Some("true")).then(|| reason.to_owned())
        };
        GraphRelease {
            payload: match value("scheme") {
                Some("oci") => ReleaseImage::Os(self.payload),
                Some(_) => ReleaseImage::Commit,
                None => ReleaseImage::Release(self.payload),
            },
            age_index: value("releases.age_index").and_then(|age| age.parse().ok()),
            barrier: marked("barrier"),
            dead_end: marked("deadend"),
            version: self.version,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graph_that_contradicts_itself_is_refused() {
        let refused = |text: &str| UpdateGraph::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(refused("[]").contains("no update graph"));
        assert!(refused("<html>").contains("no update graph"));
        let edge = refused(r#"{"nodes": [{"version": "1", "payload": "a"}], "edges": [[0, 1]]}"#);
        assert_eq!(edge, "its update from release 0 to release 1 names a release that it does not have");
        let node = r#"{"version": "1", "payload": "a"}"#;
        assert!(refused(&format!(r#"{{"nodes": [{node}, {node}]}}"#)).contains("\"1\" twice"));
    }
}
