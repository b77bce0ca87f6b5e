//! Facts about the disk that a plan of trust material needs.

use std::collections::BTreeSet;

use crate::core::trust::material::TrustMaterial;
use crate::core::trust::trust_plan::{FoundPath, TrustFacts};
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::REGISTRY_CAS;
use crate::core::values::tree::FileKind;
use crate::host::{HostDisk, HostError};

/// Observe these paths, with the contents of files, and their parents.
pub(super) fn observe(
    disk: &dyn HostDisk,
    paths: &BTreeSet<ManagedPath>,
    managed: &BTreeSet<ManagedPath>,
) -> Result<TrustFacts, HostError> {
    let parents = paths.iter().flat_map(ManagedPath::ancestors);
    let all: BTreeSet<ManagedPath> = paths.iter().cloned().chain(parents).collect();
    let mut facts = TrustFacts { managed: managed.clone(), ..TrustFacts::default() };
    for path in all {
        let Some(status) = disk.status(&path)? else { continue };
        let contents = match status.kind {
            FileKind::File if paths.contains(&path) => disk.read(&path, limits::DOCUMENT_BYTES)?,
            _ => None,
        };
        facts.found.insert(path, FoundPath { kind: status.kind, attributes: status.attributes, contents });
    }
    Ok(facts)
}

/// List the paths of the certificates of registries: those of `material`, and all that exist.
pub(super) fn registry_paths(
    disk: &dyn HostDisk,
    material: &TrustMaterial,
) -> Result<BTreeSet<ManagedPath>, HostError> {
    let top = ManagedPath::constant(REGISTRY_CAS);
    let is_there = disk.status(&top)?.is_some_and(|status| status.kind == FileKind::Directory);
    let found = if is_there { disk.below(&top)? } else { Vec::new() };
    let wanted = material.registries.keys().map(TrustMaterial::registry_file);
    Ok(found.into_iter().chain(wanted).collect())
}
