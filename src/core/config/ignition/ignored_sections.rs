//! Sections of an Ignition config that no host applies after its first boot.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::newest;

/// Collect the sections that no host applies and that must not change, by their path below `spec.config`.
pub(crate) fn compared(
    ignition: &newest::Config,
    storage: &newest::Storage,
) -> BTreeMap<&'static str, Value> {
    BTreeMap::from([
        ("storage.disks", section(storage.disks.as_deref())),
        ("storage.filesystems", section(storage.filesystems.as_deref())),
        ("storage.raid", section(storage.raid.as_deref())),
        ("kernelArguments", section(ignition.kernel_arguments.as_ref())),
    ])
}

/// Name the sections that only Ignition acts upon, and that MCD accepts in silence.
pub(crate) fn without_effect(ignition: &newest::Config, storage: &newest::Storage) -> Vec<String> {
    let configs = ignition.ignition.config.as_ref();
    let is_set = |config: &newest::Resource| config.source.is_some();
    [
        (
            storage.luks.as_ref().is_some_and(|volumes| !volumes.is_empty()),
            "spec.config.storage.luks: only Ignition does this, at the first boot of a machine",
        ),
        (
            configs
                .and_then(|configs| configs.merge.as_ref())
                .is_some_and(|merged| merged.iter().any(is_set)),
            "spec.config.ignition.config.merge: other configs are fetched by Ignition only",
        ),
        (
            configs.and_then(|configs| configs.replace.as_ref()).is_some_and(is_set),
            "spec.config.ignition.config.replace: other configs are fetched by Ignition only",
        ),
    ]
    .into_iter()
    .filter(|(is_there, _)| *is_there)
    .map(|(_, reason)| reason.to_owned())
    .collect()
}

/// Serialize a section for comparison; absent and empty are equal.
pub(crate) fn section<T: Serialize + ?Sized>(section: Option<&T>) -> Value {
    let value = serde_json::to_value(section).unwrap_or_default();
    match &value {
        Value::Array(items) if items.is_empty() => Value::Null,
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn named(config: serde_json::Value) -> Vec<String> {
        let config: newest::Config = serde_json::from_value(config).unwrap();
        without_effect(&config, &config.storage.clone().unwrap_or_default())
    }

    #[test]
    fn sections_of_ignition_alone_are_named_where_they_say_something() {
        let luks = json!({"ignition": {"version": "3.6.0"}, "storage": {"luks": [{"name": "root", "device": "/dev/vda4"}]}});
        assert!(named(luks)[0].starts_with("spec.config.storage.luks: "));
        let other = json!({"source": "https://registry.example/other.ign"});
        let configs =
            json!({"ignition": {"version": "3.6.0", "config": {"merge": [other], "replace": other}}});
        let fields = named(configs).into_iter().map(|text| text.split(": ").next().unwrap().to_owned());
        let expected = ["spec.config.ignition.config.merge", "spec.config.ignition.config.replace"];
        assert_eq!(fields.collect::<Vec<_>>(), expected);
        let second = json!({"ignition": {"version": "2.2.0", "config": {"append": [other], "replace": {}}}});
        let second = crate::core::config::ignition::parse(&second, "spec.config").unwrap().config;
        assert_eq!(without_effect(&second, &newest::Storage::default()).len(), 1);
        let empty = json!({"ignition": {"version": "3.6.0", "config": {"merge": [], "replace": {}}}, "storage": {"luks": []}});
        assert!(named(empty).is_empty());
    }
}
