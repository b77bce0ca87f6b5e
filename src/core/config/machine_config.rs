//! `MachineConfig` objects of `machineconfiguration.openshift.io/v1`: parsing of JSON or YAML into a typed
//! object. [`super::decode`] validates its content.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{document, ignition};
use crate::core::values::identifiers::ConfigName;
use crate::core::values::nearest_name::nearest;
use crate::core::values::refusal::{Refusal, RefusalList};

const KIND: &str = "MachineConfig";
const API_VERSION: &str = "machineconfiguration.openshift.io/v1";
/// Keys of `spec`.
const SPEC_KEYS: [&str; 7] = [
    "baseOSExtensionsContainerImage",
    "config",
    "extensions",
    "fips",
    "kernelArguments",
    "kernelType",
    "osImageURL",
];
/// Most unknown keys that are listed: a hostile document has as many as its size allows.
const LISTED: usize = 100;

/// One `MachineConfig` with its Ignition config parsed, but not decoded.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineConfig {
    pub name: ConfigName,
    pub metadata: ConfigMetadata,
    pub spec: MachineConfigSpec,
    /// The Ignition config, upgraded to the newest supported version.
    pub ignition: ignition::ParsedIgnition,
    /// True if each path that the config lists is wholly the config's: nothing of an earlier one with the path stays after a
    /// merge. So it is with an Ignition or Butane config; MachineConfigs are merged field by field, as the MCC does it.
    pub replaces_paths: bool,
    /// Keys of `spec` that the API does not define. The profile decides if they are refused.
    pub unknown: Vec<Refusal>,
    /// The whole object as it was read; its canonical form is stored and hashed.
    pub document: Value,
}

/// The metadata that merging depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigMetadata {
    #[serde(default)]
    pub name: String,
    /// Labels; the role label decides the order of merging.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<std::collections::BTreeMap<String, String>>,
    /// Annotations; one of them marks configs that the MCC generated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<std::collections::BTreeMap<String, String>>,
}

/// `MachineConfig.spec` without the Ignition config.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigSpec {
    /// The OS image, pinned by digest in a rendered config.
    #[serde(default, rename = "osImageURL")]
    pub os_image_url: Option<String>,
    /// The image with the packages of extensions and of other kernels.
    #[serde(default, rename = "baseOSExtensionsContainerImage")]
    pub base_os_extensions_container_image: Option<String>,
    /// Kernel arguments; one entry may hold several.
    #[serde(default)]
    pub kernel_arguments: Option<Vec<String>>,
    /// `default`, `realtime` or `64k-pages`.
    #[serde(default)]
    pub kernel_type: Option<String>,
    #[serde(default)]
    pub extensions: Option<Vec<String>>,
    /// FIPS mode of the kernel; fixed at installation.
    #[serde(default)]
    pub fips: Option<bool>,
}

/// Parse a document that holds exactly one `MachineConfig`: a bare object, or a `List` with one item.
pub fn parse(bytes: &[u8]) -> Result<MachineConfig, RefusalList> {
    parse_document(document::parse(bytes)?)
}

/// Convert a document like [`parse`].
pub fn parse_document(document: Value) -> Result<MachineConfig, RefusalList> {
    let mut configs = parse_all_of(document)?;
    match (configs.pop(), configs.len()) {
        (Some(config), 0) => Ok(config),
        (None, _) => Err(RefusalList::one("items", "the list holds no MachineConfig")),
        (Some(_), more) => Err(RefusalList::one(
            "items",
            format!(
                "the list holds {} MachineConfigs, expected one; merge them with `flameholder render`",
                more + 1
            ),
        )),
    }
}

/// Parse all `MachineConfig`s of a document: a bare object, or a `List`.
pub fn parse_all(bytes: &[u8]) -> Result<Vec<MachineConfig>, RefusalList> {
    parse_all_of(document::parse(bytes)?)
}

/// Convert a document like [`parse_all`].
pub fn parse_all_of(document: Value) -> Result<Vec<MachineConfig>, RefusalList> {
    let kind = document.get("kind").and_then(Value::as_str);
    if !matches!(kind, Some("List" | "MachineConfigList")) {
        return Ok(vec![parse_object(document, "")?]);
    }
    let Value::Object(mut list) = document else {
        return Ok(Vec::new());
    };
    let Some(Value::Array(items)) = list.remove("items") else {
        return Err(RefusalList::one("items", "the list has no items"));
    };
    let mut configs = Vec::with_capacity(items.len());
    let mut refused: Vec<Refusal> = Vec::new();
    for (index, item) in items.into_iter().enumerate() {
        match parse_object(item, &format!("items[{index}].")) {
            Ok(config) => configs.push(config),
            Err(refusals) => refused.extend_from_slice(refusals.as_slice()),
        }
    }
    RefusalList::or(refused, configs)
}

/// Parse one object; `prefix` is put before the fields of refusals.
pub fn parse_object(document: Value, prefix: &str) -> Result<MachineConfig, RefusalList> {
    let text = |key: &str| document.get(key).and_then(Value::as_str).unwrap_or_default();
    if text("kind") != KIND {
        let reason = match (text("kind"), document.get("variant")) {
            ("", Some(_)) => "the document is a Butane config, which is not accepted here".to_owned(),
            ("", None) => format!("the object has no kind; a {KIND} is expected"),
            (kind, _) => format!("`{}` is not a {KIND}", shortened(kind)),
        };
        return Err(RefusalList::one(format!("{prefix}kind"), reason));
    }
    if text("apiVersion") != API_VERSION {
        return Err(RefusalList::one(
            format!("{prefix}apiVersion"),
            format!("`{}` is not {API_VERSION}", shortened(text("apiVersion"))),
        ));
    }
    let empty = Value::Object(serde_json::Map::new());
    let section = |key: &str| match document.get(key) {
        None | Some(Value::Null) => &empty,
        Some(section) => section,
    };
    let (metadata, _) = ignition::typed::<ConfigMetadata>(section("metadata"), &format!("{prefix}metadata"))?;
    if metadata.name.is_empty() {
        return Err(RefusalList::one(format!("{prefix}metadata.name"), "the object has no name"));
    }
    if !is_object_name(&metadata.name) {
        let reason =
            "the name is not a valid Kubernetes object name: lower-case letters, digits, `-` and `.`";
        return Err(RefusalList::one(format!("{prefix}metadata.name"), reason));
    }
    let (spec, _) = ignition::typed::<MachineConfigSpec>(section("spec"), &format!("{prefix}spec"))?;
    let config = section("spec").get("config").unwrap_or(&Value::Null);
    let ignition = ignition::parse(config, &format!("{prefix}spec.config"))?;
    let unknown = unknown_keys(section("spec"), prefix);
    let name = metadata.name.as_str().into();
    Ok(MachineConfig { name, metadata, spec, ignition, replaces_paths: false, unknown, document })
}

fn unknown_keys(spec: &Value, prefix: &str) -> Vec<Refusal> {
    let keys = spec.as_object().into_iter().flat_map(serde_json::Map::keys);
    let unknown =
        keys.filter(|key| !SPEC_KEYS.contains(&key.as_str())).take(LISTED).map(|key| shortened(key));
    let refused = unknown.map(|key| {
        let reason = match nearest(&key, SPEC_KEYS) {
            Some(nearest) => format!("unknown key; did you mean `{nearest}`?"),
            None => format!("unknown key; accepted: {}", SPEC_KEYS.join(", ")),
        };
        Refusal::new(format!("{prefix}spec.{key}"), reason)
    });
    refused.collect()
}

/// True if characters and length are those of a DNS subdomain (RFC 1123).
fn is_object_name(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    name.len() <= 253 && name.chars().all(legal)
}

fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: &str = r#"{"apiVersion":"machineconfiguration.openshift.io/v1","kind":"MachineConfig","metadata":{"name":"a"},"spec":{"kernelArguments":null}}"#;

    #[test]
    fn bare_object_and_list_of_one_are_accepted() {
        let list = format!(r#"{{"apiVersion":"v1","kind":"List","items":[{OBJECT}]}}"#);
        for text in [OBJECT, &list] {
            assert_eq!(parse(text.as_bytes()).unwrap().name, "a");
        }
        let two = format!(r#"{{"kind":"List","items":[{OBJECT},{OBJECT}]}}"#);
        assert!(parse(two.as_bytes()).unwrap_err().to_string().contains("render"));
    }

    #[test]
    fn yaml_is_read_like_json() {
        let yaml = "apiVersion: machineconfiguration.openshift.io/v1\nkind: MachineConfig\nmetadata:\n  name: a\nspec:\n  fips: false\n";
        assert_eq!(parse(yaml.as_bytes()).unwrap().spec.fips, Some(false));
    }

    #[test]
    fn unknown_key_of_the_spec_is_named_with_the_nearest_known_one() {
        let reasons = |spec: &str| {
            let object = OBJECT.replace(r#"{"kernelArguments":null}"#, spec);
            let unknown = parse(object.as_bytes()).unwrap().unknown;
            unknown.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(reasons(r#"{"fips":false,"config":null}"#), [""; 0]);
        for (key, nearest) in
            [("kernelArgumnets", "kernelArguments"), ("osImageUrl", "osImageURL"), ("fipss", "fips")]
        {
            let expected = format!("spec.{key}: unknown key; did you mean `{nearest}`?");
            assert_eq!(reasons(&format!(r#"{{"{key}":null}}"#)), [expected]);
        }
        let [far] = &reasons(r#"{"replicas":3}"#)[..] else { panic!("one key") };
        assert!(far.starts_with("spec.replicas: unknown key; accepted: base"), "{far}");
    }

    #[test]
    fn refusal_names_the_field() {
        for (text, field) in [
            ("", "empty"),
            ("{\"kind\":\"Pod\"}", "kind"),
            ("{\"kind\":\"MachineConfig\",\"apiVersion\":\"v1\"}", "apiVersion"),
            (&OBJECT.replace(".io/v1", ".io/v2"), "`machineconfiguration.openshift.io/v2` is not"),
            ("{\"a\":{\"b\":1,\"b\":2}}", "a.b"),
            ("{\"kind\":", "not valid JSON"),
            ("a: [1", "not valid YAML"),
            ("a: 1\na: 2\n", "a"),
        ] {
            let message = parse(text.as_bytes()).unwrap_err().to_string();
            assert!(message.contains(field), "{text}: {message}");
        }
        let wrong = OBJECT.replace("null", "\"nosmt\"");
        let message = parse(wrong.as_bytes()).unwrap_err().to_string();
        assert!(message.starts_with("spec.kernelArguments") && !message.contains("nosmt"), "{message}");
    }
}
