//! Sections of an Ignition config that only Ignition applies, at the first boot of a machine.

use serde_json::Value;

use super::AT_INSTALLATION;
use crate::core::values::refusal::Refusal;

/// Sections, each with the reason to refuse it and the way out.
const REFUSED: [(&str, &str); 5] = [
    ("storage.disks", AT_INSTALLATION),
    ("storage.raid", AT_INSTALLATION),
    ("storage.filesystems", AT_INSTALLATION),
    ("storage.luks", AT_INSTALLATION),
    ("kernelArguments.shouldNotExist", "a config cannot remove kernel arguments; remove the section"),
];

/// Refuse sections of the config at `field` that the agent would not apply, each by its name.
pub(super) fn refusals(document: &Value, field: &str) -> Vec<Refusal> {
    // The parser of Ignition 2.x refuses file systems by itself, and accepts the declaration of the root.
    let version = document.pointer("/ignition/version").and_then(Value::as_str);
    let is_legacy = version.is_some_and(|version| version.starts_with("2."));
    REFUSED
        .iter()
        .filter(|(section, _)| is_filled(document, section))
        .filter(|(section, _)| !(is_legacy && section.starts_with("storage.")))
        .map(|(section, reason)| Refusal::new(format!("{field}.{section}"), *reason))
        .collect()
}

/// Return true if the section exists and has members.
pub(crate) fn is_filled(document: &Value, section: &str) -> bool {
    let found = document.pointer(&format!("/{}", section.replace('.', "/")));
    match found {
        None | Some(Value::Null) => false,
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Object(members)) => members.values().any(|member| !is_empty(member)),
        Some(_) => true,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.values().all(is_empty),
        _ => false,
    }
}
