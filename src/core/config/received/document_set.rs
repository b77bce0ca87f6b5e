//! Documents of a source: one config as it is, or several that are merged as a cluster merges the MachineConfigs of a pool.

use serde_json::Value;

use super::{ReferencedContents, parse_all};
use crate::core::config::artifact::{ArtifactFiles, ArtifactRef};
use crate::core::config::decode;
use crate::core::config::ignition::remote_contents::{RemoteContents, UnresolvedConfig};
use crate::core::config::machine_config::MachineConfig;
use crate::core::config::render::documents::name_documents;
use crate::core::config::render::{PoolName, ReleaseImages, RenderedName, render_for_host};
use crate::core::values::limits;
use crate::core::values::refusal::RefusalList;

/// Pool name for the rendered config of several files.
const POOL: &str = "local";
/// File name extensions of configs; other files are ignored.
const SUFFIXES: [&str; 5] = ["bu", "ign", "json", "yaml", "yml"];

/// Return true for the file name of a config. Hidden names belong to incomplete files (editors, rsync), and to the internals
/// of Kubernetes volumes.
#[must_use]
pub fn is_document(name: &str) -> bool {
    let suffix = name.rsplit_once('.').map(|(_, suffix)| suffix);
    !name.starts_with('.') && suffix.is_some_and(|suffix| SUFFIXES.contains(&suffix))
}

/// Refusal of one document, or of the merge of all of them.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DocumentSetError {
    #[error("{}", refusals.in_file(file))]
    Refused { file: String, refusals: RefusalList },
    #[error("{0} holds no config: put a file at its root whose name ends in .yaml, .json, .ign or .bu")]
    Empty(String),
}

/// Merge the configs at the root of an artifact. Butane configs name local files by their paths in it; `remote` are the contents
/// that were fetched.
pub fn merge_artifact(
    artifact: &ArtifactRef,
    files: &ArtifactFiles,
    remote: &RemoteContents,
) -> Result<MachineConfig, UnresolvedConfig<DocumentSetError>> {
    let referenced = ReferencedContents { local: files, remote };
    let documents: Vec<_> = files.at_root().filter(|file| is_document(&file.path)).collect();
    let mut set = DocumentSet::of(documents.len());
    for document in documents {
        let file = || format!("{artifact}: {}", document.path);
        let added = set.add(&document.path, &document.contents, referenced);
        let refused = |refusals| DocumentSetError::Refused { file: file(), refusals };
        added.map_err(|error| error.map_refused(refused))?;
    }
    let refused = |refusals| DocumentSetError::Refused { file: artifact.to_string(), refusals };
    let merged = set.merge().map_err(refused)?;
    Ok(merged.ok_or_else(|| DocumentSetError::Empty(artifact.to_string()))?)
}

/// Count the values of a document, which take much more memory than their text.
fn values(document: &Value) -> usize {
    match document {
        Value::Array(items) => 1 + items.iter().map(values).sum::<usize>(),
        Value::Object(members) => 1 + members.values().map(values).sum::<usize>(),
        _ => 1,
    }
}

/// Configs of the documents of a source, which are added in the order of their names.
#[derive(Debug)]
pub struct DocumentSet {
    is_alone: bool,
    configs: Vec<MachineConfig>,
    /// Values in the documents of the configs.
    values: usize,
}

impl DocumentSet {
    /// Create the set for this number of documents.
    #[must_use]
    pub fn of(documents: usize) -> Self {
        Self { is_alone: documents == 1, configs: Vec::new(), values: 0 }
    }

    /// Add the configs of the document `name`. Problems of a config that is alone have their places in the document; the merge
    /// finds those of others.
    pub fn add(
        &mut self,
        name: &str,
        bytes: &[u8],
        referenced: ReferencedContents<'_>,
    ) -> Result<(), UnresolvedConfig> {
        let checked = parse_all(bytes, name, referenced).and_then(|configs| {
            if let ([only], true) = (configs.as_slice(), self.is_alone) {
                decode::decode(only)?;
            }
            Ok(configs)
        });
        let placed = |error: UnresolvedConfig| error.map_refused(|refusals| refusals.placed_in(bytes));
        let configs = checked.map_err(placed)?;
        self.values += configs.iter().map(|config| values(&config.document)).sum::<usize>();
        if !self.is_alone && self.values > limits::JSON_VALUES {
            let reason = format!(
                "with the documents before it, the config has more than {} values; leave documents out",
                limits::JSON_VALUES
            );
            return Err(RefusalList::one("", reason).into());
        }
        self.configs.extend(configs);
        Ok(())
    }

    /// Merge the configs; a MachineConfig that is alone keeps its name. `None` without any config.
    pub fn merge(self) -> Result<Option<MachineConfig>, RefusalList> {
        match self.configs.as_slice() {
            [] => Ok(None),
            [only] if self.is_alone && !only.replaces_paths => Ok(Some(only.clone())),
            configs => {
                let pool: PoolName = POOL.parse().expect("constant pool name is valid");
                let rendered =
                    render_for_host(configs, &RenderedName::OfPool(pool), &ReleaseImages::default())?;
                Ok(Some(name_documents(rendered, configs)))
            }
        }
    }
}
