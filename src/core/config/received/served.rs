//! MachineConfig as a config server gives it to Ignition: in two files, of which one has the members of this machine.

use serde_json::Value;

use crate::core::config::machine_config;
use crate::core::config::machine_config::MachineConfig;
use crate::core::values::paths::{CONTENT, ENCAPSULATED};
use crate::core::values::refusal::{Refusal, RefusalList, TextPlace};

/// Members of `spec` that the config server sets per machine: a layered image replaces the config's own, and
/// the kernel arguments are those that the machine's Ignition is too old to set.
const SERVED: [&str; 6] =
    ["osImageURL", "baseOSExtensionsContainerImage", "kernelArguments", "kernelType", "extensions", "fips"];

/// Return the configuration to complete: `content`, with the per-machine members of `encapsulated`. Without
/// `content` files and units are unknown, and only `encapsulated` is returned.
pub fn configuration(encapsulated: &[u8], content: Option<&[u8]>) -> Result<Value, RefusalList> {
    let encapsulated = named(machine_config::parse(encapsulated), ENCAPSULATED)?;
    let Some(content) = content else { return Ok(encapsulated.document) };
    let content = named(machine_config::parse(content), CONTENT)?;
    if content.name != encapsulated.name {
        let (one, other) = (&encapsulated.name, &content.name);
        let reason = format!(
            "{ENCAPSULATED} holds config {one}, but {CONTENT} holds {other}; both files must be of the same config"
        );
        return Err(RefusalList::one("metadata.name", reason));
    }
    let mut document = content.document;
    let served = encapsulated.document.get("spec").cloned().unwrap_or_default();
    if let Some(spec) = document.get_mut("spec").and_then(Value::as_object_mut) {
        for key in SERVED {
            match served.get(key) {
                Some(value) => drop(spec.insert(key.to_owned(), value.clone())),
                None => drop(spec.remove(key)),
            }
        }
    }
    Ok(document)
}

fn named(parsed: Result<MachineConfig, RefusalList>, file: &str) -> Result<MachineConfig, RefusalList> {
    parsed.map_err(|refusals| {
        let named = |refusal: &Refusal| match (&refusal.place, refusal.field.as_str()) {
            (Some(TextPlace { line, column }), _) => {
                Refusal::new(format!("{file}:{line}:{column}"), &refusal.reason)
            }
            (None, "") => Refusal::new(file, &refusal.reason),
            (None, field) => Refusal::new(format!("{file}: {field}"), &refusal.reason),
        };
        let refused: Vec<Refusal> = refusals.as_slice().iter().map(named).collect();
        RefusalList::or(refused, ()).err().unwrap_or(refusals)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str, spec: &Value) -> Value {
        json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": {"name": name}, "spec": spec})
    }

    fn whole() -> Value {
        object(
            "rendered-worker-1",
            &json!({"osImageURL": "reg/os@sha256:1", "kernelArguments": ["a", "b"], "fips": false,
                "config": {"ignition": {"version": "3.4.0"},
                    "storage": {"files": [{"path": "/etc/a", "contents": {"source": "data:,a"}}]}}}),
        )
    }

    fn read(encapsulated: &Value, content: Option<&Value>) -> Result<Value, RefusalList> {
        let content = content.map(|content| content.to_string().into_bytes());
        configuration(encapsulated.to_string().as_bytes(), content.as_deref())
    }

    #[test]
    fn served_members_replace_those_of_the_object() {
        let empty = json!({"ignition": {"version": "3.2.0"}});
        let served = object(
            "rendered-worker-1",
            &json!({"osImageURL": "reg/layered@sha256:2", "kernelArguments": ["a"], "config": empty}),
        );
        let read_whole = read(&served, Some(&whole())).unwrap();
        assert_eq!(read_whole["spec"]["osImageURL"], "reg/layered@sha256:2");
        assert_eq!(read_whole["spec"]["kernelArguments"], json!(["a"]));
        assert_eq!(read_whole["spec"]["config"], whole()["spec"]["config"]);
        assert!(read_whole["spec"].get("fips").is_none());
        assert_eq!(read(&served, None).unwrap(), served, "without the content file, the object alone");
        let other = object("rendered-worker-2", &json!({"config": empty}));
        let refused = read(&other, Some(&whole())).unwrap_err().to_string();
        assert!(refused.contains("rendered-worker-1") && refused.contains("rendered-worker-2"), "{refused}");
        let refused = configuration(b"{", Some(b"{")).unwrap_err().to_string();
        assert!(refused.contains(ENCAPSULATED), "{refused}");
    }
}
