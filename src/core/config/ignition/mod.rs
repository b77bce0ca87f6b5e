//! Ignition configs: parsing of every supported version, upgraded to the newest.

pub mod content_hash;
pub(crate) mod ignored_sections;
pub mod merge;
pub mod remote_contents;
pub mod resolution;
mod section;
mod v2;
pub(crate) mod work_of_ignition;

use std::collections::BTreeSet;

pub use ignition_config::v3_6 as newest;
use ignition_config::{v3_0, v3_1, v3_2, v3_3, v3_4, v3_5};
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::section::SectionError;
use crate::core::values::foreign_text::harmless_line;
use crate::core::values::refusal::RefusalList;

/// The accepted versions, as errors list them.
const ACCEPTED: &str = "2.0.0 to 2.2.0 and 3.0.0 to 3.6.0";

/// Reason to refuse work that only Ignition does.
pub(crate) const AT_INSTALLATION: &str =
    "only Ignition does this, at the first boot of a machine; remove the section, or reinstall the machine";

/// A parsed Ignition config with the keys that were ignored.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedIgnition {
    /// The config, upgraded to the newest version.
    pub config: newest::Config,
    /// Paths of keys that the config's version does not define. Ignition ignores them too.
    pub unused: Vec<String>,
    /// True for Ignition 2.x, whose duplicate files, units and users are merged instead of refused.
    pub legacy: bool,
}

/// List the paths of files, directories and links.
#[must_use]
pub fn storage_paths(config: &newest::Config) -> Vec<&str> {
    let Some(storage) = &config.storage else { return Vec::new() };
    let files = storage.files.iter().flatten().map(|file| file.path.as_str());
    let directories = storage.directories.iter().flatten().map(|directory| directory.path.as_str());
    let links = storage.links.iter().flatten().map(|link| link.path.as_str());
    files.chain(directories).chain(links).collect()
}

/// Parse the Ignition config at `field` of a document. `null` and `{}` give the empty config.
pub fn parse(value: &Value, field: &str) -> Result<ParsedIgnition, RefusalList> {
    if value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty) {
        return Ok(ParsedIgnition { config: newest::Config::default(), unused: Vec::new(), legacy: false });
    }
    let version_field = format!("{field}.ignition.version");
    let version = value.pointer("/ignition/version").and_then(Value::as_str).ok_or_else(|| {
        RefusalList::one(
            &version_field,
            format!("the Ignition version is missing or not a string; accepted: {ACCEPTED}"),
        )
    })?;
    match version {
        "2.0.0" | "2.1.0" | "2.2.0" => {
            let (config, unused) = typed::<v2::IgnitionV2>(value, field)?;
            let config = config.translate(field)?;
            Ok(ParsedIgnition { config, unused, legacy: true })
        }
        "3.0.0" => upgraded::<v3_0::Config>(value, field),
        "3.1.0" => upgraded::<v3_1::Config>(value, field),
        "3.2.0" => upgraded::<v3_2::Config>(value, field),
        "3.3.0" => upgraded::<v3_3::Config>(value, field),
        "3.4.0" => upgraded::<v3_4::Config>(value, field),
        "3.5.0" => upgraded::<v3_5::Config>(value, field),
        "3.6.0" => {
            let (config, unused) = typed::<newest::Config>(value, field)?;
            Ok(ParsedIgnition { config, unused, legacy: false })
        }
        other => Err(RefusalList::one(
            version_field,
            format!(
                "the Ignition version `{}` is not known; accepted: {ACCEPTED}",
                other.chars().take(32).collect::<String>()
            ),
        )),
    }
}

/// Parse by the rules of the config's own version, and then as the newest: every 3.x schema is a subset of its successor.
fn upgraded<T: DeserializeOwned>(value: &Value, field: &str) -> Result<ParsedIgnition, RefusalList> {
    let (_, unused) = section::read::<T>(value, field).map_err(refusal)?;
    let newest = if unused.is_empty() {
        section::read(value, field)
    } else {
        // A key of a newer version has no effect in an older one.
        section::read(&section::without(value, field, &unused), field)
    };
    let (config, _) = newest.map_err(refusal)?;
    Ok(ParsedIgnition { config, unused: shown(unused), legacy: false })
}

/// Deserialize `value`. An error names its field, and keys that were not read are returned by path.
pub(crate) fn typed<T: DeserializeOwned>(
    value: &Value,
    field: &str,
) -> Result<(T, Vec<String>), RefusalList> {
    let (parsed, unused) = section::read(value, field).map_err(refusal)?;
    Ok((parsed, shown(unused)))
}

fn refusal(SectionError { field, error }: SectionError) -> RefusalList {
    RefusalList::one(field, without_values(&error.to_string()))
}

/// Return the paths for messages: keys are of the document, and no key may look like a message.
fn shown(paths: BTreeSet<String>) -> Vec<String> {
    paths.into_iter().map(|path| harmless_line(&path).into_owned()).collect()
}

/// Remove quoted values from an error of serde: a value may be a secret.
fn without_values(message: &str) -> String {
    let mut clean = String::with_capacity(message.len());
    let mut quoted = false;
    for character in message.chars() {
        match character {
            '"' => {
                quoted = !quoted;
                clean.push('"');
                if quoted {
                    clean.push('…');
                }
            }
            _ if quoted => {}
            other => clean.push(other),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_3_x_version_is_upgraded_to_the_newest() {
        for minor in 0..=6 {
            let config = json!({
                "ignition": {"version": format!("3.{minor}.0")},
                "storage": {"files": [{"path": "/etc/x", "mode": 420, "contents": {"source": "data:,x"}}]},
                "systemd": {"units": [{"name": "x.service", "dropins": null}]},
            });
            let parsed = parse(&config, "spec.config").unwrap();
            let files = parsed.config.storage.unwrap().files.unwrap();
            assert_eq!(files[0].mode, Some(420), "3.{minor}.0");
        }
    }

    #[test]
    fn refusal_names_the_field_but_not_the_value() {
        let config = json!({
            "ignition": {"version": "3.4.0"},
            "passwd": {"users": [{"name": "core"}, {"name": "core", "passwordHash": ["hunter2"]}]},
            "storage": {"files": [{"path": "/etc/x", "mode": "hunter2"}]},
        });
        let message = parse(&config, "spec.config").unwrap_err().to_string();
        assert!(message.starts_with("spec.config."), "{message}");
        assert!(!message.contains("hunter2"), "{message}");
        for version in [json!("21.0.0"), json!("1.0.0"), json!(3), Value::Null] {
            let config = json!({"ignition": {"version": version}});
            let message = parse(&config, "spec.config").unwrap_err().to_string();
            assert!(message.contains("spec.config.ignition.version"), "{message}");
        }
    }

    #[test]
    fn unknown_key_is_reported_but_not_refused() {
        let config = json!({"ignition": {"version": "3.4.0"}, "systemd": {"units": [{"name": "x.service", "enable": true}]}});
        let parsed = parse(&config, "spec.config").unwrap();
        assert_eq!(parsed.unused, ["spec.config.systemd.units[0].enable"]);
    }
}
