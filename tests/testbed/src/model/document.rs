//! `MachineConfig`s for tests.

use serde_json::{Value, json};

/// Wrap an Ignition config in a `MachineConfig`.
pub fn machine_config(name: &str, ignition: &Value) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": {"name": name},
        "spec": {"config": ignition}
    })
}

/// `MachineConfig` with these `storage.files`.
pub fn with_files(name: &str, files: &[Value]) -> Value {
    machine_config(name, &json!({"ignition": {"version": "3.5.0"}, "storage": {"files": files}}))
}

/// Entry of `storage.files` with this text, mode 0644.
pub fn file(path: &str, text: &str) -> Value {
    let source = data_url(text.as_bytes());
    json!({"path": path, "mode": 0o644, "overwrite": true, "contents": {"source": source}})
}

/// Data URL of these bytes, each percent-encoded.
pub fn data_url(bytes: &[u8]) -> String {
    let plain = "data:,".to_owned();
    bytes.iter().fold(plain, |url, byte| url + &format!("%{byte:02x}"))
}

/// Answer of a config server for `config`: its Ignition config, with the files that it appends. The part for the
/// first boot has this name.
pub fn config_server_answer(config: &Value, name: &str) -> Value {
    let mut encapsulated = config.clone();
    encapsulated["metadata"]["name"] = json!(name);
    encapsulated["spec"]["config"] = json!({"ignition": {"version": "3.4.0"}});
    let mut ignition = config["spec"]["config"].clone();
    let appended = |path: &str, text: &str| json!({"path": path, "mode": 420, "overwrite": true, "contents": {"source": data_url(text.as_bytes())}});
    let files = ignition["storage"]["files"].as_array_mut().unwrap();
    files.extend([
        appended("/etc/machine-config-daemon/node-annotations.json", "{}"),
        appended("/etc/kubernetes/kubeconfig", "token: bootstrap-secret"),
        appended("/etc/mcs-machine-config-content.json", &config.to_string()),
        appended("/etc/ignition-machine-config-encapsulated.json", &encapsulated.to_string()),
    ]);
    ignition
}
