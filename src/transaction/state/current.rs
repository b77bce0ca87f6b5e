//! What was applied last: the record and the configuration beside it.

use std::collections::BTreeMap;

use crate::core::config::decode;
use crate::core::config::host_config::{HostConfig, KernelType};
use crate::core::config::machine_config;
use crate::core::config::machine_config::MachineConfig;
use crate::core::config::managed_files::ManagedFiles;
use crate::core::plan::steps::PriorChanges;
use crate::core::state::objects::ActiveManifest;
use crate::core::state::record::{GenerationRecord, RecordError};
use crate::core::values::limits;
use crate::core::values::names::ManagedPath;
use crate::core::values::paths::{CURRENT_CONFIG, RECORD};
use crate::core::values::refusal::RefusalList;
use crate::core::values::tree::ContentDigest;
use crate::host::facts::tree_facts::TreeScope;
use crate::host::{HostError, Root};

use super::objects;
use super::objects::StoreLoadError;

/// A configuration, as an object and decoded.
#[derive(Debug, Clone)]
pub struct DecodedConfig {
    /// The object.
    pub object: MachineConfig,
    /// What it asks of a host.
    pub host: HostConfig,
    /// The image of on-cluster layering that stands in for the object's own, and has kernel and extensions in it.
    pub layered_image: Option<String>,
}

impl DecodedConfig {
    /// Parses and decodes a document.
    pub fn parse(bytes: &[u8]) -> Result<Self, RefusalList> {
        let object = machine_config::parse(bytes)?;
        let host = decode::decode(&object)?;
        Ok(Self { object, host, layered_image: None })
    }

    /// The same on this image, which was built from it.
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

    /// The document as it is recorded: compact JSON.
    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        self.object.document.to_string().into_bytes()
    }

    /// Digest of the recorded document.
    #[must_use]
    pub fn hash(&self) -> String {
        ContentDigest::of(&self.render()).to_string()
    }
}

/// The state that the last transaction left.
#[derive(Debug, Clone, Default)]
pub struct CurrentState {
    /// The generation's record; absent on a tree that another agent configured.
    pub record: Option<GenerationRecord>,
    /// The configuration.
    pub configuration: Option<DecodedConfig>,
    /// What is active outside `/etc`; absent where nothing ever was.
    pub active: Option<ActiveManifest>,
}

/// Why that state cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CurrentStateError {
    /// The tree cannot be read.
    #[error(transparent)]
    Host(#[from] HostError),
    /// What is active outside `/etc` cannot be read.
    #[error(transparent)]
    Store(#[from] StoreLoadError),
    /// The record is damaged or another release's.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// There is a record and no configuration.
    #[error(
        "the applied configuration {CURRENT_CONFIG} is missing or empty; restore it, or remove {RECORD} too to start over"
    )]
    ConfigMissing,
    /// The recorded configuration is damaged.
    #[error(
        "reading the applied configuration {CURRENT_CONFIG}; restore it, or remove it together with {RECORD} to start over"
    )]
    Configuration(#[source] RefusalList),
}

impl CurrentState {
    /// Loads it from the tree at `root`.
    pub fn load(root: &Root) -> Result<Self, CurrentStateError> {
        let record = Self::load_record(root)?;
        let path = ManagedPath::constant(CURRENT_CONFIG);
        let configuration = root.read(&path, limits::DOCUMENT_BYTES)?.filter(|bytes| !bytes.is_empty());
        let configuration = configuration.map(|bytes| DecodedConfig::parse(&bytes)).transpose();
        let configuration = configuration.map_err(CurrentStateError::Configuration)?;
        if record.is_some() && configuration.is_none() {
            return Err(CurrentStateError::ConfigMissing);
        }
        let image = record.as_ref().and_then(|record| record.layered_image.clone());
        let configuration = configuration.map(|configuration| configuration.layered(image));
        let active = objects::load_active(root)?;
        Ok(Self { record, configuration, active })
    }

    /// Loads the record alone.
    pub fn load_record(root: &Root) -> Result<Option<GenerationRecord>, CurrentStateError> {
        let bytes = root.read(&ManagedPath::constant(RECORD), limits::DOCUMENT_BYTES)?;
        Ok(bytes.map(|bytes| GenerationRecord::parse(&bytes)).transpose()?)
    }

    /// What has to be known of earlier changes to take them back.
    #[must_use]
    pub fn remembered(&self) -> PriorChanges {
        let (record, active) = (self.record.iter(), self.active.iter());
        let labels = self.record.as_ref().map(|record| record.labels.clone()).unwrap_or_default();
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

    /// The greatest sequence number of all generations that are known.
    #[must_use]
    pub fn latest(&self) -> u64 {
        let ran = self.active.as_ref().and_then(|active| active.ran.as_ref());
        let recorded = self.record.as_ref().map_or(0, |record| record.sequence);
        recorded.max(ran.map_or(0, |ran| ran.latest))
    }

    /// What is managed outside `/etc`, where that is not what the configuration says: another
    /// generation is active there than the one in `/etc`.
    pub fn active_elsewhere(
        &self,
        root: &Root,
        reach: TreeScope,
    ) -> Result<Option<ManagedFiles>, StoreLoadError> {
        let recorded = self.record.as_ref().and_then(|record| record.manifest);
        let active = self.active.as_ref().and_then(|active| active.manifest);
        match active {
            active if reach == TreeScope::Everything && active == recorded => Ok(None),
            None => Ok(Some(ManagedFiles::default())),
            // Whose contents they were does not matter any more, only where they are.
            Some(active) => Ok(Some(objects::load_manifest(root, active)?.managed(&BTreeMap::new()))),
        }
    }

    /// The decoded configuration.
    #[must_use]
    pub fn host(&self) -> Option<&HostConfig> {
        self.configuration.as_ref().map(|configuration| &configuration.host)
    }
}

/// Whether a later generation ran on this host already.
pub(crate) fn is_older_than_last_booted(record: &GenerationRecord, current: &CurrentState) -> bool {
    let ran = current.active.as_ref().and_then(|active| active.ran.as_ref());
    ran.is_some_and(|ran| record.sequence < ran.latest)
}
