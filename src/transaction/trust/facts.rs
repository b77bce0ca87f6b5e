//! Facts about the disk that a plan of trust material needs.

use std::collections::BTreeSet;

use crate::core::trust::material::TrustMaterial;
use crate::core::trust::trust_plan::{FoundPath, TrustFacts};
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::{KUBECONFIG, KUBELET_KUBECONFIG, REGISTRY_CAS};
use crate::core::values::tree::FileKind;
use crate::host::{HostDisk, HostError};

/// Observe the paths of `material`, their parents, and everything below the directory of registries.
pub(super) fn observe(disk: &dyn HostDisk, material: &TrustMaterial) -> Result<TrustFacts, HostError> {
    let top = ManagedPath::constant(REGISTRY_CAS);
    let read: BTreeSet<ManagedPath> = material
        .files
        .keys()
        .cloned()
        .chain(material.registries.keys().map(TrustMaterial::registry_file))
        .chain([KUBECONFIG, KUBELET_KUBECONFIG].map(ManagedPath::constant))
        .collect();
    let below = if is_directory(disk, &top)? { disk.below(&top)? } else { Vec::new() };
    let parents = read.iter().flat_map(ManagedPath::ancestors).chain([top]);
    let paths: BTreeSet<ManagedPath> = read.iter().cloned().chain(parents).chain(below).collect();
    let mut facts = TrustFacts::default();
    for path in paths {
        let Some(status) = disk.status(&path)? else { continue };
        let contents = match status.kind {
            FileKind::File if read.contains(&path) => disk.read(&path, limits::DOCUMENT_BYTES)?,
            _ => None,
        };
        facts.found.insert(path, FoundPath { kind: status.kind, attributes: status.attributes, contents });
    }
    Ok(facts)
}

fn is_directory(disk: &dyn HostDisk, path: &ManagedPath) -> Result<bool, HostError> {
    Ok(disk.status(path)?.is_some_and(|status| status.kind == FileKind::Directory))
}
