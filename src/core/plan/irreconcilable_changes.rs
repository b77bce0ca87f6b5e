//! Irreconcilable changes: differences in the storage sections that only an installation applies, between the config of
//! the first boot and the current one. The machine-config-operator lets some of them through, and the host stays as it
//! was installed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::core::values::tree::ChangeKind;

/// Sections below `spec.config.storage` (MCO's report has the same).
const SECTIONS: [&str; 4] = ["disks", "raid", "filesystems", "luks"];
/// Most listed changes; a config can have any number.
const MOST_CHANGES: usize = 100;

/// Difference of one field. Values are left out: sections on disk encryption hold secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IrreconcilableChange {
    /// Field of the MachineConfig, such as `spec.config.storage.disks[0].partitions[1].sizeMiB`.
    #[schemars(length(min = 1))]
    pub field: String,
    /// Change from the config of the first boot to the current one.
    pub change: ChangeKind,
}

/// List the changes from the MachineConfig of the first boot to the current one, both as they were read; at most 100.
#[must_use]
pub fn irreconcilable_changes(installed: &Value, current: &Value) -> Vec<IrreconcilableChange> {
    let mut changes = Vec::new();
    for section in SECTIONS {
        let pointer = format!("/spec/config/storage/{section}");
        let of = |config: &'_ Value| config.pointer(&pointer).cloned().unwrap_or_default();
        compare(&format!("spec.config.storage.{section}"), &of(installed), &of(current), &mut changes);
    }
    changes
}

fn compare(field: &str, before: &Value, after: &Value, changes: &mut Vec<IrreconcilableChange>) {
    if changes.len() >= MOST_CHANGES || is_same(before, after) {
        return;
    }
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let added = new.keys().filter(|key| !old.contains_key(*key));
            for key in old.keys().chain(added) {
                let at =
                    |object: &serde_json::Map<String, Value>| object.get(key).cloned().unwrap_or_default();
                compare(&format!("{field}.{key}"), &at(old), &at(new), changes);
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            for index in 0..old.len().max(new.len()) {
                let at = |items: &[Value]| items.get(index).cloned().unwrap_or_default();
                compare(&format!("{field}[{index}]"), &at(old), &at(new), changes);
            }
        }
        _ => {
            let change = match (is_unset(before), is_unset(after)) {
                (true, _) => ChangeKind::Add,
                (_, true) => ChangeKind::Remove,
                _ => ChangeKind::Modify,
            };
            changes.push(IrreconcilableChange { field: field.to_owned(), change });
        }
    }
}

fn is_same(before: &Value, after: &Value) -> bool {
    before == after || is_unset(before) && is_unset(after)
}

/// Return true for a member that a renderer may write or leave out.
fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn changes(installed: &Value, current: &Value) -> Vec<String> {
        let config = |storage: &Value| json!({"spec": {"config": {"storage": storage}}});
        let found = irreconcilable_changes(&config(installed), &config(current));
        found.iter().map(|change| format!("{} {:?}", change.field, change.change)).collect()
    }

    #[test]
    fn differing_fields_are_named_without_their_values() {
        let installed = json!({"disks": [{"device": "/dev/a", "partitions": [{"number": 1, "sizeMiB": 10}]}], "raid": null,
            "luks": [{"name": "root", "keyFile": {"source": "data:,secret"}}]});
        let current = json!({"disks": [{"device": "/dev/a", "partitions": [{"number": 1, "sizeMiB": 20}, {"number": 2}]}],
            "raid": [], "filesystems": [{"device": "/dev/b"}], "luks": [{"name": "root", "keyFile": {}}]});
        assert_eq!(
            changes(&installed, &current),
            [
                "spec.config.storage.disks[0].partitions[0].sizeMiB Modify",
                "spec.config.storage.disks[0].partitions[1] Add",
                "spec.config.storage.filesystems Add",
                "spec.config.storage.luks[0].keyFile.source Remove",
            ]
        );
        assert_eq!(changes(&installed, &installed), Vec::<String>::new());
    }

    #[test]
    fn only_sections_of_an_installation_are_compared() {
        assert_eq!(
            changes(&json!({"files": [1]}), &json!({"files": [2], "links": []})),
            Vec::<String>::new()
        );
        assert_eq!(irreconcilable_changes(&json!("no config"), &json!([])), []);
    }

    #[test]
    fn list_of_changes_is_bounded() {
        let many: Vec<Value> = (0..1000).map(|number| json!({"name": number})).collect();
        assert_eq!(changes(&json!({"raid": [1]}), &json!({"raid": many})).len(), MOST_CHANGES);
    }
}
