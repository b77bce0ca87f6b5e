//! Configuration document for a rollback: the earlier generation's, with the current trust material.

use serde_json::{Map, Value};

use crate::core::state::carry_forward;
use crate::core::values::names::ManagedPath;

/// Merge two configuration documents for a rollback: `older` with the users and the trusted files of `newer`.
/// SSH keys, password hashes, the pull secret and certificates that were rotated since stay rotated.
///
/// Files are taken from `newer` only if both documents have the same major Ignition version, since the format
/// of files differs between major versions.
#[must_use]
pub fn with_trust_material_of(older: &Value, newer: &Value) -> Value {
    let mut document = older.clone();
    let Some(config) = document.pointer_mut("/spec/config").and_then(Value::as_object_mut) else {
        return document;
    };
    let now = newer.pointer("/spec/config");
    match now.and_then(|now| now.get("passwd")) {
        Some(passwd) => drop(config.insert("passwd".to_owned(), passwd.clone())),
        None => drop(config.remove("passwd")),
    }
    let now = now.and_then(Value::as_object);
    if now.is_some_and(|now| major(now) == major(config)) {
        let trusted: Vec<Value> = now.map(files).unwrap_or_default().into_iter().filter(is_trusted).collect();
        let mut kept: Vec<Value> = files(config).into_iter().filter(|file| !is_trusted(file)).collect();
        kept.extend(trusted);
        let storage = config.entry("storage").or_insert_with(|| Value::Object(Map::new()));
        if let Some(storage) = storage.as_object_mut() {
            storage.insert("files".to_owned(), Value::Array(kept));
        }
    }
    document
}

fn major(config: &Map<String, Value>) -> Option<&str> {
    config.get("ignition")?.get("version")?.as_str()?.split('.').next()
}

fn files(config: &Map<String, Value>) -> Vec<Value> {
    let files = config.get("storage").and_then(|storage| storage.get("files")).and_then(Value::as_array);
    files.cloned().unwrap_or_default()
}

fn is_trusted(file: &Value) -> bool {
    let path = file.get("path").and_then(Value::as_str).and_then(|path| ManagedPath::parse(path).ok());
    path.is_some_and(|path| carry_forward::is_trust_material(&path))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(version: &str, key: &str, files: &[(&str, &str)]) -> Value {
        let files: Vec<Value> = files
            .iter()
            .map(|(path, source)| json!({"path": path, "contents": {"source": source}}))
            .collect();
        json!({"spec": {"config": {
            "ignition": {"version": version},
            "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": [key]}]},
            "storage": {"files": files},
        }}})
    }

    #[test]
    fn trust_material_is_the_newer_and_all_else_the_older() {
        let older =
            document("3.2.0", "old key", &[("/var/lib/kubelet/config.json", "old"), ("/etc/a", "old")]);
        let newer =
            document("3.5.0", "new key", &[("/etc/a", "new"), ("/var/lib/kubelet/config.json", "new")]);
        let expected =
            document("3.2.0", "new key", &[("/etc/a", "old"), ("/var/lib/kubelet/config.json", "new")]);
        assert_eq!(with_trust_material_of(&older, &newer), expected);
    }

    #[test]
    fn files_of_another_ignition_version_stay() {
        let older = document("2.2.0", "old key", &[("/etc/shadow", "old")]);
        let newer = document("3.5.0", "new key", &[("/etc/shadow", "new")]);
        assert_eq!(
            with_trust_material_of(&older, &newer),
            document("2.2.0", "new key", &[("/etc/shadow", "old")])
        );
        assert_eq!(with_trust_material_of(&json!({"spec": {}}), &newer), json!({"spec": {}}));
    }
}
