//! Current state of a tree: generation record, current config and active manifest.

use std::collections::BTreeMap;

use super::objects;
use super::objects::{OutsideLabels, StoreLoadError};
use crate::core::config::host_config::{HostConfig, KernelType};
use crate::core::config::machine_config::MachineConfig;
use crate::core::config::managed_files::ManagedFiles;
use crate::core::config::{decode, machine_config};
use crate::core::plan::steps::PriorChanges;
use crate::core::state::objects::ActiveManifest;
use crate::core::state::record::{GenerationRecord, RecordError};
use crate::core::values::causes::chain;
use crate::core::values::identifiers::ConfigDigest;
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::{CURRENT_CONFIG, RECORD};
use crate::core::values::refusal::RefusalList;
use crate::core::values::tree::ContentDigest;
use crate::host::facts::tree_facts::TreeScope;
use crate::host::{HostError, Root};

/// A MachineConfig, as a document and decoded.
#[derive(Debug, Clone)]
pub struct DecodedConfig {
    pub object: MachineConfig,
    /// Host configuration decoded from the object.
    pub host: HostConfig,
    /// Image from on-cluster layering, which replaces the object's image and already contains kernel and
    /// extensions.
    pub layered_image: Option<String>,
}

impl DecodedConfig {
    /// Parse and decode the document of a MachineConfig to apply.
    pub fn parse(bytes: &[u8]) -> Result<Self, RefusalList> {
        Self::decode(machine_config::parse(bytes)?)
    }

    /// Decode a MachineConfig to apply.
    pub fn decode(object: MachineConfig) -> Result<Self, RefusalList> {
        let host = decode::decode(&object)?;
        Ok(Self { object, host, layered_image: None })
    }

    /// Parse and decode the document of a MachineConfig that was applied already, by Ignition, MCD or an
    /// earlier version: entries that no host takes are left out, by name.
    pub fn parse_applied(bytes: &[u8]) -> Result<Self, RefusalList> {
        Self::decode_applied(machine_config::parse(bytes)?)
    }

    /// Decode a MachineConfig like [`DecodedConfig::parse_applied`].
    pub fn decode_applied(object: MachineConfig) -> Result<Self, RefusalList> {
        let host = decode::decode_applied(&object)?;
        Ok(Self { object, host, layered_image: None })
    }

    /// Replace the image by one from on-cluster layering, and drop kernel type and extensions, which that
    /// image contains.
    #[must_use]
    pub fn layered(mut self, image: Option<String>) -> Self {
        if let Some(image) = &image {
            let os = &mut self.host.os;
            os.image = Some(image.clone());
            os.kernel_type = KernelType::default();
            os.extensions.clear();
        }
        self.layered_image = image;
        self
    }

    /// Render the document in the form in which it is recorded: compact JSON.
    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        self.object.document.to_string().into_bytes()
    }

    /// Return the digest of the recorded form.
    #[must_use]
    pub fn config_hash(&self) -> ConfigDigest {
        ContentDigest::of(&self.render()).to_string().into()
    }
}

/// State that the last transaction left.
#[derive(Debug, Clone, Default)]
pub struct CurrentState {
    /// Generation record; absent on a tree that another agent configured.
    pub record: Option<GenerationRecord>,
    pub configuration: Option<DecodedConfig>,
    /// Manifest of the active files outside `/etc`; absent if none were ever managed.
    pub active: Option<ActiveManifest>,
    /// SELinux labels outside `/etc` of the recorded generation.
    pub outside_labels: OutsideLabels,
}

/// Error of loading the current state.
#[derive(Debug, thiserror::Error)]
pub enum CurrentStateError {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Store(#[from] StoreLoadError),
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The tree has a record, but no config.
    #[error(
        "the applied configuration {CURRENT_CONFIG} is missing or empty; restore it, or remove {RECORD} too to start over"
    )]
    ConfigMissing,
    /// The current config cannot be parsed.
    #[error(
        "reading the applied configuration {CURRENT_CONFIG}; restore it, or remove it together with {RECORD} to start over"
    )]
    Configuration(#[source] RefusalList),
}

impl CurrentState {
    /// Load the current state of the tree at `root`. An active manifest that cannot be read counts as none; those that
    /// write another one set it aside.
    pub fn load(root: &Root) -> Result<Self, CurrentStateError> {
        let record = Self::load_record(root)?;
        let configuration = Self::load_configuration(root, record.as_ref())?;
        let active = match objects::load_active(root) {
            Err(StoreLoadError::Store(unreadable)) => {
                log::warn!("{}; `flameholder status` lists documents that are set aside", chain(&unreadable));
                None
            }
            active => active?,
        };
        let outside_labels = OutsideLabels::load(root, record.as_ref().and_then(|record| record.manifest))?;
        Ok(Self { record, configuration, active, outside_labels })
    }

    /// Load the current state as far as it can be read. The record has to be readable; the second value holds the
    /// errors of the rest. An unreadable active manifest is set aside, for the next one to take its place.
    pub fn load_available(root: &Root) -> Result<(Self, Vec<String>), CurrentStateError> {
        let record = Self::load_record(root)?;
        let mut problems = Vec::new();
        let configuration = Self::load_configuration(root, record.as_ref()).unwrap_or_else(|error| {
            problems.push(chain(&error));
            None
        });
        let active = match objects::load_active(root) {
            Ok(active) => active,
            Err(error) => {
                problems.push(chain(&error));
                if let Err(error) = objects::set_active_manifest_aside(root) {
                    problems.push(chain(&error));
                }
                None
            }
        };
        let manifest = record.as_ref().and_then(|record| record.manifest);
        let outside_labels = OutsideLabels::load(root, manifest).unwrap_or_else(|error| {
            problems.push(chain(&error));
            OutsideLabels::default()
        });
        Ok((Self { record, configuration, active, outside_labels }, problems))
    }

    /// Load the current config; fail if there is a `record` without one.
    fn load_configuration(
        root: &Root,
        record: Option<&GenerationRecord>,
    ) -> Result<Option<DecodedConfig>, CurrentStateError> {
        let path = ManagedPath::constant(CURRENT_CONFIG);
        let configuration = root.read(&path, limits::DOCUMENT_BYTES)?.filter(|bytes| !bytes.is_empty());
        let configuration = configuration.map(|bytes| DecodedConfig::parse_applied(&bytes)).transpose();
        let configuration = configuration.map_err(CurrentStateError::Configuration)?;
        if record.is_some() && configuration.is_none() {
            return Err(CurrentStateError::ConfigMissing);
        }
        let image = record.and_then(|record| record.layered_image.clone());
        Ok(configuration.map(|configuration| configuration.layered(image)))
    }

    /// Load the record alone.
    pub fn load_record(root: &Root) -> Result<Option<GenerationRecord>, CurrentStateError> {
        let bytes = root.read(&ManagedPath::constant(RECORD), limits::DOCUMENT_BYTES)?;
        Ok(bytes.map(|bytes| GenerationRecord::parse(&bytes)).transpose()?)
    }

    /// Return the labels that the recorded generation gives to created paths. Outside `/etc`, those of its
    /// manifest count.
    #[must_use]
    pub fn given_labels(&self) -> BTreeMap<ManagedPath, String> {
        let mut labels = self.record.as_ref().map(|record| record.labels.clone()).unwrap_or_default();
        labels.extend(self.outside_labels.all.clone());
        labels
    }

    /// Return the pre-images and created directories of earlier changes, which are needed to undo them, and the
    /// labels that the disk is compared with.
    #[must_use]
    pub fn prior_changes(&self) -> PriorChanges {
        let (record, active) = (self.record.iter(), self.active.iter());
        let mut labels = self.record.as_ref().map(|record| record.labels.clone()).unwrap_or_default();
        labels.extend(self.outside_labels.compared.clone());
        let originals = record.clone().flat_map(|record| &record.originals);
        let created = record.flat_map(|record| &record.created_directories);
        PriorChanges {
            originals: originals
                .chain(active.clone().flat_map(|active| &active.originals))
                .cloned()
                .collect(),
            created_directories: created
                .chain(active.flat_map(|active| &active.created_directories))
                .cloned()
                .collect(),
            labels,
        }
    }

    /// Return the highest sequence number of the recorded generation and the last booted one.
    #[must_use]
    pub fn latest_sequence(&self) -> u64 {
        let ran = self.active.as_ref().and_then(|active| active.last_booted.as_ref());
        let recorded = self.record.as_ref().map_or(0, |record| record.sequence);
        recorded.max(ran.map_or(0, |ran| ran.latest))
    }

    /// Return the managed files outside `/etc` if another generation is active there than the one recorded
    /// in `/etc`; `None` if they match.
    pub fn differing_active_files(
        &self,
        root: &Root,
        scope: TreeScope,
    ) -> Result<Option<ManagedFiles>, StoreLoadError> {
        let recorded = self.record.as_ref().and_then(|record| record.manifest);
        let active = match &self.active {
            Some(active) => active.manifest,
            // The document is lost: the record names the applied paths.
            None if scope == TreeScope::Everything => recorded,
            None => None,
        };
        match active {
            active if scope == TreeScope::Everything && active == recorded => Ok(None),
            None => Ok(Some(ManagedFiles::default())),
            // Only the paths matter, so no contents are loaded.
            Some(active) => match objects::load_manifest(root, active) {
                Ok(manifest) => Ok(Some(manifest.managed(&BTreeMap::new()))),
                // Its files stay where they are; the next activation knows them from the config, if anything does.
                Err(StoreLoadError::Store(lost)) => {
                    log::warn!("{}; files of the active generation may stay", chain(&lost));
                    Ok(Some(ManagedFiles::default()))
                }
                Err(error) => Err(error),
            },
        }
    }

    #[must_use]
    pub fn host(&self) -> Option<&HostConfig> {
        self.configuration.as_ref().map(|configuration| &configuration.host)
    }
}

/// Return true if a later generation than `record` was booted on this host before.
pub(crate) fn is_older_than_last_booted(record: &GenerationRecord, current: &CurrentState) -> bool {
    let ran = current.active.as_ref().and_then(|active| active.last_booted.as_ref());
    ran.is_some_and(|ran| record.sequence < ran.latest)
}
