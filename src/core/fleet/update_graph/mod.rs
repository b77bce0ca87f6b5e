//! Update graph of a Cincinnati server, such as those of `OpenShift` and Fedora CoreOS: which release follows which.

mod document;
mod release_version;

use std::cmp::Ordering;

pub use self::document::{UpdateGraph, UpdateGraphError};
use self::release_version::compare_versions;

/// Release of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphRelease {
    pub version: String,
    pub payload: ReleaseImage,
    /// Place in the order of the releases, where the server tells it; the oldest has the lowest.
    pub age_index: Option<u64>,
    /// Reason why every update goes through this release; `None` if it is no barrier.
    pub barrier: Option<String>,
    /// Reason why no release follows this one; `None` if it is no dead end.
    pub dead_end: Option<String>,
}

/// Payload of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReleaseImage {
    /// Image of the operating system, by its reference.
    Os(String),
    /// Release image of `OpenShift` or OKD, which names the image of the operating system.
    Release(String),
    /// Checksum of an OSTree commit, which no config can name.
    Commit,
}

/// Step from a release to the next, as a graph gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateStep<'a> {
    Next(&'a GraphRelease),
    /// No release follows, and none is meant to.
    DeadEnd(&'a str),
    /// Releases follow for some clusters only; the text names the risk of the newest.
    Conditional {
        release: &'a GraphRelease,
        risk: &'a str,
    },
    /// No release follows yet.
    Newest,
    /// The graph does not have the version.
    Unknown,
}

impl UpdateGraph {
    /// Return the release of a version.
    pub(super) fn release(&self, version: &str) -> Option<&GraphRelease> {
        self.releases.iter().find(|release| release.version == version)
    }

    /// Return the step that follows a version: to the newest of the releases that its edges lead to.
    #[must_use]
    pub fn step_from(&self, version: &str) -> UpdateStep<'_> {
        let Some(from) = self.releases.iter().position(|release| release.version == version) else {
            return UpdateStep::Unknown;
        };
        let targets = self.edges.iter().filter(|(start, _)| *start == from);
        let targets = targets.filter_map(|(_, end)| self.releases.get(*end));
        if let Some(next) = targets.max_by(|one, other| by_age(one, other)) {
            return UpdateStep::Next(next);
        }
        let risky = self.risks.iter().filter(|risk| risk.from == version);
        let risky = risky.filter_map(|risk| Some((self.release(&risk.to)?, risk.name.as_str())));
        if let Some((release, risk)) = risky.max_by(|(one, _), (other, _)| by_age(one, other)) {
            return UpdateStep::Conditional { release, risk };
        }
        match self.releases.get(from).and_then(|release| release.dead_end.as_deref()) {
            Some(reason) => UpdateStep::DeadEnd(reason),
            None => UpdateStep::Newest,
        }
    }
}

/// Order releases by age, as the server tells it, or by their versions.
fn by_age(one: &GraphRelease, other: &GraphRelease) -> Ordering {
    match (one.age_index, other.age_index) {
        (Some(one), Some(other)) => one.cmp(&other),
        _ => compare_versions(&one.version, &other.version),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn graph(document: &Value) -> UpdateGraph {
        UpdateGraph::parse(document.to_string().as_bytes()).unwrap()
    }

    fn coreos() -> UpdateGraph {
        let node = |version: &str, age: u64, more: &[(&str, &str)]| {
            let mut metadata = json!({
                "org.fedoraproject.coreos.scheme": "oci",
                "org.fedoraproject.coreos.releases.age_index": age.to_string(),
            });
            for (key, value) in more {
                metadata[format!("org.fedoraproject.coreos.updates.{key}")] = json!(value);
            }
            json!({"version": version, "payload": format!("quay.io/fedora/fedora-coreos:{version}"), "metadata": metadata})
        };
        graph(&json!({
            "nodes": [
                node("42.20250701.3.0", 9, &[("barrier", "true"), ("barrier_reason", "new boot loader")]),
                node("41.20250101.3.0", 8, &[]),
                node("43.20260101.3.0", 11, &[("deadend", "true"), ("deadend_reason", "broken network")]),
                node("43.20260102.3.0", 12, &[]),
            ],
            "edges": [[1, 0], [0, 2], [0, 3]],
        }))
    }

    #[test]
    fn newest_release_that_an_edge_leads_to_is_next() {
        let graph = coreos();
        let UpdateStep::Next(next) = graph.step_from("41.20250101.3.0") else { panic!() };
        assert_eq!(next.barrier.as_deref(), Some("new boot loader"));
        assert_eq!(next.payload, ReleaseImage::Os("quay.io/fedora/fedora-coreos:42.20250701.3.0".into()));
        let UpdateStep::Next(next) = graph.step_from("42.20250701.3.0") else { panic!() };
        assert_eq!(next.version, "43.20260102.3.0");
        assert_eq!(graph.step_from("43.20260102.3.0"), UpdateStep::Newest);
        assert_eq!(graph.step_from("43.20260101.3.0"), UpdateStep::DeadEnd("broken network"));
        assert_eq!(graph.step_from("40.1"), UpdateStep::Unknown);
    }

    #[test]
    fn conditional_update_is_not_taken_for_one_that_suits_all() {
        let node =
            |version: &str| json!({"version": version, "payload": format!("quay.io/ocp/release@{version}")});
        let risk = json!({"url": "https://x", "name": "LosesNodes", "message": "m", "matchingRules": []});
        let risky = |to: &str| json!({"edges": [{"from": "4.17.9", "to": to}], "risks": [risk]});
        let document = json!({
            "nodes": [node("4.17.9"), node("4.17.10"), node("4.18.0-rc.1"), node("4.18.0")],
            "edges": [[0, 1], [1, 2]],
            "conditionalEdges": [risky("4.18.0"), risky("9.9")],
        });
        let all = graph(&document);
        let UpdateStep::Next(next) = all.step_from("4.17.9") else { panic!() };
        assert_eq!(next.version, "4.17.10");
        assert_eq!(next.payload, ReleaseImage::Release("quay.io/ocp/release@4.17.10".into()));
        let mut only_risky = document.clone();
        only_risky["edges"] = json!([]);
        let only_risky = graph(&only_risky);
        let UpdateStep::Conditional { release, risk } = only_risky.step_from("4.17.9") else { panic!() };
        assert_eq!((release.version.as_str(), risk), ("4.18.0", "LosesNodes"));
    }
}
