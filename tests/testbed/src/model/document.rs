//! `MachineConfig`s made up on the spot.

use serde_json::{Value, json};

/// A `MachineConfig` around an Ignition config.
pub fn machine_config(name: &str, ignition: &Value) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": {"name": name},
        "spec": {"config": ignition}
    })
}

/// A `MachineConfig` with these `storage.files`.
pub fn with_files(name: &str, files: &[Value]) -> Value {
    machine_config(name, &json!({"ignition": {"version": "3.5.0"}, "storage": {"files": files}}))
}

/// An entry of `storage.files` with this text, 0644.
pub fn file(path: &str, text: &str) -> Value {
    let source = data_url(text.as_bytes());
    json!({"path": path, "mode": 0o644, "overwrite": true, "contents": {"source": source}})
}

/// A data URL of these bytes, every one percent-encoded.
pub fn data_url(bytes: &[u8]) -> String {
    let plain = "data:,".to_owned();
    bytes.iter().fold(plain, |url, byte| url + &format!("%{byte:02x}"))
}
