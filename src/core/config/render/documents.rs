//! Documents of a rendered config: the names of the merged configs that list each path and unit.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{MachineConfig, in_order};
use crate::core::config::ignition::storage_paths;
use crate::core::config::machine_config::ConfigMetadata;
use crate::core::config::managed_files::unit_path;

/// Annotation with the documents, as JSON.
pub const ANNOTATION: &str = "flameholder/documents";
/// Most bytes of the annotation: the API server takes 256 KiB for all annotations of an object.
const LONGEST: usize = 192 << 10;

/// Names of the configs that list a path, the one that wins last. A unit has the path of its file.
pub type DocumentNames = BTreeMap<String, Vec<String>>;

/// Name the documents of each path in the rendered config. Where that would be too long, it stays without.
#[must_use]
pub fn name_documents(mut rendered: MachineConfig, configs: &[MachineConfig]) -> MachineConfig {
    let mut names = DocumentNames::new();
    for config in in_order(configs) {
        for path in paths(config) {
            names.entry(path).or_default().push(config.name.to_string());
        }
    }
    let text = json!(names).to_string();
    if text.len() <= LONGEST {
        if let Some(metadata) = rendered.document.pointer_mut("/metadata").and_then(Value::as_object_mut) {
            metadata.insert("annotations".to_owned(), json!({ANNOTATION: text}));
        }
        rendered.metadata.annotations.get_or_insert_default().insert(ANNOTATION.to_owned(), text);
    }
    rendered
}

/// Read the documents that a config names; none if it names none, or in another form.
#[must_use]
pub fn of(metadata: &ConfigMetadata) -> DocumentNames {
    let text = metadata.annotations.as_ref().and_then(|all| all.get(ANNOTATION));
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

fn paths(config: &MachineConfig) -> Vec<String> {
    let ignition = &config.ignition.config;
    let paths = storage_paths(ignition).into_iter().map(str::to_owned);
    let units = ignition.systemd.iter().flat_map(|systemd| systemd.units.iter().flatten());
    paths.chain(units.map(|unit| unit_path(&unit.name).to_string())).collect()
}
