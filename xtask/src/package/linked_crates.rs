//! Crates that are linked into the executables, from `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, NodeDep};

use crate::invocation;
use crate::project_tree::ProjectTree;

/// Crate that is linked.
#[derive(Debug)]
pub(super) struct LinkedCrate {
    pub(super) name: String,
    pub(super) version: String,
    /// SPDX expression; empty if the crate names none.
    pub(super) license: String,
    pub(super) directory: PathBuf,
    /// Names of the crates that it links.
    pub(super) dependencies: BTreeSet<(String, String)>,
}

/// List the crates that the release executables link on this platform, those of both TLS libraries included.
pub(super) fn list(tree: &ProjectTree) -> Result<Vec<LinkedCrate>> {
    let version = invocation::read(Command::new("rustc").args(["--version", "--verbose"]))?;
    let platform =
        version.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    let arguments =
        ["metadata", "--format-version=1", "--locked", "--all-features", "--filter-platform", platform];
    let metadata = invocation::read(&mut tree.cargo(&arguments))?;
    linked(&MetadataCommand::parse(metadata).context("decoding the answer of cargo metadata")?)
}

/// Follow the linked crates, from the agent.
fn linked(metadata: &Metadata) -> Result<Vec<LinkedCrate>> {
    let packages: BTreeMap<_, _> = metadata.packages.iter().map(|package| (&package.id, package)).collect();
    let resolved = metadata.resolve.as_ref().context("cargo metadata resolves nothing")?;
    let nodes: BTreeMap<_, _> = resolved.nodes.iter().map(|node| (&node.id, node)).collect();
    let root = metadata.packages.iter().find(|package| package.name == "flameholder");
    let root = root.context("cargo metadata does not list flameholder")?;

    let (mut seen, mut open) = (BTreeSet::new(), vec![&root.id]);
    let mut crates = Vec::new();
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        let package = packages.get(id).with_context(|| format!("cargo metadata does not describe {id}"))?;
        let links = nodes.get(id).into_iter().flat_map(|node| &node.deps).filter(|link| is_linked(link));
        let links: Vec<_> = links.map(|link| &link.pkg).collect();
        let named = links.iter().filter_map(|id| packages.get(id));
        crates.push(LinkedCrate {
            name: package.name.to_string(),
            version: package.version.to_string(),
            license: package.license.clone().unwrap_or_default(),
            directory: package.manifest_path.parent().context("a manifest in a directory")?.into(),
            dependencies: named.map(|other| (other.name.to_string(), other.version.to_string())).collect(),
        });
        open.extend(links);
    }
    crates.sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
    Ok(crates)
}

/// Return true for a dependency that is neither for the build nor for tests alone.
fn is_linked(dependency: &NodeDep) -> bool {
    dependency.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_linked_crates_are_listed() {
        let crates = list(&ProjectTree::locate().unwrap()).unwrap();
        let has = |name: &str| crates.iter().any(|linked| linked.name == name);
        // Of both TLS libraries, and of the worker.
        for name in ["flameholder", "openssl", "rustls", "ostree-ext", "serde"] {
            assert!(has(name), "{name}");
        }
        // For tests and builds.
        for name in ["insta", "cc", "proptest"] {
            assert!(!has(name), "{name}");
        }
    }
}
