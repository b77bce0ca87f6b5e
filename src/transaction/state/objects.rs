//! Object store on disk: contents and manifests of managed files outside `/etc`, by digest.

use std::collections::{BTreeMap, BTreeSet};

use super::agent_files::AgentFiles;
use crate::core::config::managed_files::ManagedFiles;
use crate::core::plan::steps::PlanStep;
use crate::core::state::objects;
use crate::core::state::objects::{ACTIVE, ActiveManifest, Manifest, OBJECTS, StoreError};
use crate::core::values::causes::chain;
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::core::values::profile::Profile;
use crate::core::values::tree::ContentDigest;
use crate::host::fs::mounts::mounts_without_labels;
use crate::host::{HostError, Root};
use crate::transaction::engine::atomic_file;

/// Mode of all files in the store, because contents may be secret.
const MODE: u32 = 0o600;

/// Error of reading the object store.
#[derive(Debug, thiserror::Error)]
pub enum StoreLoadError {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// SELinux labels outside `/etc` in a generation's manifest.
#[derive(Debug, Clone, Default)]
pub struct OutsideLabels {
    /// Labels of the generation's paths, and of the directories above them.
    pub all: BTreeMap<ManagedPath, String>,
    /// Labels to compare with the disk, on file systems that have labels.
    pub compared: BTreeMap<ManagedPath, String>,
}

impl OutsideLabels {
    /// Load the labels in the manifest `digest`. An unreadable manifest counts as one without labels: the activation
    /// reports it.
    pub(crate) fn load(root: &Root, digest: Option<ContentDigest>) -> Result<Self, StoreLoadError> {
        let manifest = match digest.map(|digest| load_manifest(root, digest)) {
            None | Some(Err(StoreLoadError::Store(_))) => return Ok(Self::default()),
            Some(manifest) => manifest?,
        };
        let mut compared = manifest.compared_labels();
        if compared.is_empty() {
            return Ok(Self { all: manifest.labels, compared });
        }
        let refusing = mounts_without_labels()?;
        let directories: BTreeSet<ManagedPath> = compared.keys().filter_map(ManagedPath::parent).collect();
        let mut labelled = BTreeSet::new();
        for directory in directories {
            if root.has_labels(&directory, &refusing)? {
                labelled.insert(directory);
            }
        }
        compared.retain(|path, _| path.parent().is_some_and(|parent| labelled.contains(&parent)));
        Ok(Self { all: manifest.labels, compared })
    }
}

/// Load the manifest that `/var` currently matches.
pub fn load_active(root: &Root) -> Result<Option<ActiveManifest>, StoreLoadError> {
    let bytes = root.read(&ManagedPath::constant(ACTIVE), limits::DOCUMENT_BYTES)?;
    Ok(bytes.map(|bytes| ActiveManifest::parse(&bytes)).transpose()?)
}

/// Load the manifest with this digest.
pub(crate) fn load_manifest(root: &Root, digest: ContentDigest) -> Result<Manifest, StoreLoadError> {
    Ok(Manifest::parse(digest, &load_object(root, digest)?)?)
}

/// Load the object with this digest.
pub(crate) fn load_object(root: &Root, digest: ContentDigest) -> Result<Vec<u8>, StoreLoadError> {
    let path = objects::object_path(digest);
    let bytes = root.read(&path, limits::INFLATED_BYTES)?;
    match bytes {
        None => Err(StoreError::Missing { path }.into()),
        Some(bytes) if ContentDigest::of(&bytes) == digest => Ok(bytes),
        Some(_) => Err(StoreError::Damaged { path }.into()),
    }
}

/// Set the active manifest aside if it cannot be read.
pub(crate) fn set_unreadable_manifest_aside(root: &Root) -> Result<(), HostError> {
    match load_active(root) {
        Ok(_) => Ok(()),
        Err(StoreLoadError::Host(error)) => Err(error),
        Err(StoreLoadError::Store(_)) => set_active_manifest_aside(root),
    }
}

/// Set the active manifest aside, because it cannot be read: a later one replaces it, and it may be of use to the
/// release that wrote it.
pub(crate) fn set_active_manifest_aside(root: &Root) -> Result<(), HostError> {
    atomic_file::set_aside(root, &ManagedPath::constant(ACTIVE))
}

/// Return the digest of the manifest of `outside` with these labels; `None` if no file outside `/etc` is managed.
pub(crate) fn manifest_digest(
    outside: &ManagedFiles,
    profile: Profile,
    labels: &BTreeMap<ManagedPath, String>,
) -> Option<ContentDigest> {
    let is_empty = outside.entries.is_empty();
    (!is_empty).then(|| ContentDigest::of(&Manifest::of(outside, profile).0.labelled(labels).render()))
}

/// Add steps that store the manifest and contents of `outside`.
pub(crate) fn store_objects(
    files: &mut AgentFiles<'_>,
    outside: &ManagedFiles,
    profile: Profile,
    labels: &BTreeMap<ManagedPath, String>,
) -> Result<(), StoreLoadError> {
    if outside.entries.is_empty() {
        return Ok(());
    }
    let (manifest, objects) = Manifest::of(outside, profile);
    let manifest = manifest.labelled(labels);
    for (digest, contents) in objects {
        files.write(objects::object_path(digest), contents, MODE)?;
    }
    let manifest = manifest.render();
    Ok(files.write(objects::object_path(ContentDigest::of(&manifest)), manifest, MODE)?)
}

/// Add the step that declares `active` as the manifest that `/var` matches.
pub(crate) fn write_active_manifest(
    files: &mut AgentFiles<'_>,
    before: Option<&ActiveManifest>,
    active: &ActiveManifest,
) -> Result<(), HostError> {
    // Nothing outside `/etc` was ever managed: there is nothing to undo later.
    let is_nothing = active.manifest.is_none()
        && active.originals.is_empty()
        && active.created_directories.is_empty()
        && active.last_booted.is_none();
    if before.is_none() && is_nothing {
        return Ok(());
    }
    files.write(ManagedPath::constant(ACTIVE), active.render(), MODE)
}

/// Load the manifests with these digests. A missing or damaged one is skipped with a warning, so its
/// objects are pruned.
pub(crate) fn load_referenced(
    root: &Root,
    digests: impl IntoIterator<Item = ContentDigest>,
) -> Result<BTreeMap<ContentDigest, Manifest>, StoreLoadError> {
    let mut live = BTreeMap::new();
    for digest in digests {
        match load_manifest(root, digest) {
            Ok(manifest) => drop(live.insert(digest, manifest)),
            Err(StoreLoadError::Store(error)) => log::warn!("{error}", error = chain(&error)),
            Err(error) => return Err(error),
        }
    }
    Ok(live)
}

/// Plan the removal of all objects that no manifest in `live` references.
pub(crate) fn prune(
    root: &Root,
    live: &BTreeMap<ContentDigest, Manifest>,
) -> Result<Vec<PlanStep>, StoreLoadError> {
    let directory = ManagedPath::constant(OBJECTS);
    let stored: BTreeSet<ManagedPath> =
        root.list(&directory)?.iter().map(|name| directory.join(name)).collect();
    let garbage = objects::unreferenced_objects(&stored, live).into_iter();
    Ok(garbage.map(|path| PlanStep::Remove { path }).collect())
}
