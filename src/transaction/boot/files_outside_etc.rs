//! Managed files outside `/etc` of the recorded generation, from the object store. Lost contents are computed again
//! from the current config, which lies in `/etc` and holds every byte of it.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::config::managed_files::ManagedFiles;
use crate::core::state::objects::{Manifest, ManifestEntry};
use crate::core::state::record::GenerationRecord;
use crate::core::values::names::ManagedPath;
use crate::core::values::profile::Profile;
use crate::core::values::tree::{ContentDigest, FileAttributes};
use crate::host::facts::tree_facts;
use crate::host::{HostDisk, Root};
use crate::transaction::TransactionError;
use crate::transaction::boot::activate::ActivationMode;
use crate::transaction::engine::labels;
use crate::transaction::state::current::{CurrentState, CurrentStateError};
use crate::transaction::state::objects;
use crate::transaction::state::objects::OutsideLabels;

/// Manifest and contents, by digest.
type StoredFiles = (Manifest, BTreeMap<ContentDigest, Vec<u8>>);

/// Managed files outside `/etc` of a generation.
#[derive(Debug)]
pub(super) struct FilesOutsideEtc {
    pub(super) managed: ManagedFiles,
    pub(super) profile: Profile,
    /// SELinux labels of the paths and of the directories above them.
    pub(super) labels: BTreeMap<ManagedPath, String>,
    /// True if the store lost a part, which the activation stores again.
    pub(super) is_rebuilt: bool,
    /// Parts that are lost for good, each with the reason.
    pub(super) problems: Vec<String>,
}

impl FilesOutsideEtc {
    /// Load the files of the generation in `record`, the record in the `/etc` of `root`.
    pub(super) fn load(
        root: &Root,
        record: &GenerationRecord,
        current: &CurrentState,
        mode: ActivationMode,
    ) -> Result<Self, TransactionError> {
        let mut files = Self {
            managed: ManagedFiles::default(),
            profile: record.profile,
            labels: BTreeMap::new(),
            is_rebuilt: false,
            problems: Vec::new(),
        };
        let Some(digest) = record.manifest else { return Ok(files) };
        match objects::load_manifest(root, digest) {
            Ok(manifest) => files.take(root, record, current, mode, &manifest)?,
            Err(lost) => match rebuild(root, record, current) {
                Ok((manifest, contents)) => {
                    log::warn!("{lost}; it is computed again from the current config");
                    files.managed = manifest.managed(&contents);
                    files.labels = manifest.labels;
                    files.is_rebuilt = true;
                }
                Err(_) if mode == ActivationMode::AsFarAsPossible => files.problems.push(lost.to_string()),
                Err(_) => return Err(lost.into()),
            },
        }
        Ok(files)
    }

    /// Take the files of `manifest`, each content from the store or, where that lost it, from the current config.
    fn take(
        &mut self,
        root: &Root,
        record: &GenerationRecord,
        current: &CurrentState,
        mode: ActivationMode,
        manifest: &Manifest,
    ) -> Result<(), TransactionError> {
        self.profile = manifest.profile;
        self.labels.clone_from(&manifest.labels);
        let (mut contents, mut lost) = (BTreeMap::new(), BTreeMap::new());
        for digest in manifest.objects() {
            match objects::load_object(root, digest) {
                Ok(bytes) => drop(contents.insert(digest, bytes)),
                Err(error) => drop(lost.insert(digest, error)),
            }
        }
        if !lost.is_empty() {
            let (_, rebuilt) = rebuild(root, record, current).unwrap_or_else(|_| {
                (Manifest { entries: BTreeMap::new(), ..manifest.clone() }, BTreeMap::new())
            });
            contents.extend(rebuilt.into_iter().filter(|(digest, _)| lost.remove(digest).is_some()));
            self.is_rebuilt = true;
        }
        let mut manifest = manifest.clone();
        if mode == ActivationMode::AllOrNothing
            && let Some((_, error)) = lost.pop_first()
        {
            return Err(error.into());
        }
        manifest.entries.retain(|path, entry| match entry {
            ManifestEntry::File { digest, .. } => lost.get(digest).is_none_or(|error| {
                self.problems.push(format!("{path}: {error}"));
                false
            }),
            _ => true,
        });
        self.managed = manifest.managed(&contents);
        Ok(())
    }
}

/// Compute the manifest and its objects again from the current config. The policy cannot be asked, so the labels are
/// those of the manifest that is active, or none: a new file then gets its directory's.
fn rebuild(
    root: &Root,
    record: &GenerationRecord,
    current: &CurrentState,
) -> Result<StoredFiles, TransactionError> {
    let config = current.configuration.as_ref();
    let config = config.filter(|config| config.config_hash() == record.config_hash);
    let config = config.ok_or(CurrentStateError::ConfigMissing)?;
    let prior = current.prior_changes();
    let managed = tree_facts::managed_outside_etc(root, &config.host, &prior, record.profile)?;
    let (manifest, contents) = Manifest::of(&managed, record.profile);
    let active = current.active.as_ref().and_then(|active| active.manifest);
    let labels = OutsideLabels::load(root, active)?.all;
    Ok((manifest.labelled(&labels), contents))
}

/// Create the directories that symbolic links of the image point to, such as `/var/usrlocal`: on a first
/// boot they do not exist yet, and managed files below them need them. The label of a target is that of its link's
/// path in `labels`.
pub(super) fn ensure_link_targets(
    root: &Root,
    desired: &ManagedFiles,
    labels: &BTreeMap<ManagedPath, String>,
) -> Result<(), TransactionError> {
    let labels = labels::terminated_labels(labels);
    let above: BTreeSet<ManagedPath> = desired.entries.keys().flat_map(ManagedPath::ancestors).collect();
    for link in above {
        let Some(target) = root.link_target(&link)?.and_then(|target| link.leads_to(&target)) else {
            continue;
        };
        for directory in target.ancestors().collect::<Vec<_>>().into_iter().rev().chain([target.clone()]) {
            if root.status(&directory)?.is_none() {
                let label = labels.get(if directory == target { &link } else { &directory });
                let attributes = FileAttributes { mode: 0o755, uid: 0, gid: 0 };
                root.make_directory(&directory, attributes, label.map(Vec::as_slice))?;
                root.sync(&[Some(directory.clone()), directory.parent()])?;
            }
        }
    }
    Ok(())
}
