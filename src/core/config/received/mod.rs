//! Documents as operators and servers give them: MachineConfigs, and Ignition or Butane configs in their place, such as the
//! answer of a config server. An Ignition config becomes the MachineConfig that stands for it; work that Ignition alone does, at
//! the first boot of a machine, is refused.

pub mod document_set;
pub mod served;

use serde_json::{Map, Value, json};

use crate::core::config::butane::LocalFiles;
use crate::core::config::contents::ContentsDecoder;
use crate::core::config::ignition::newest;
use crate::core::config::ignition::remote_contents::{RemoteContents, UnresolvedConfig};
use crate::core::config::ignition::resolution::{ResolvedIgnition, resolve};
use crate::core::config::ignition::work_of_ignition::is_filled;
use crate::core::config::machine_config::MachineConfig;
use crate::core::config::{butane, document, ignition, machine_config};
use crate::core::values::paths::{CONTENT, ENCAPSULATED};
use crate::core::values::refusal::RefusalList;
use crate::core::values::tree::ContentDigest;

/// Sections about fetching. They have no effect: contents with a hash are fetched with the CAs of the system, without a proxy.
const WITHOUT_EFFECT: [&str; 3] = ["ignition.proxy", "ignition.security", "ignition.timeouts"];

/// Hexadecimal digits of the digest in the name of a config that has none.
const NAME_DIGITS: usize = 32;
/// Longest name of a Kubernetes object.
const NAME_LENGTH: usize = 253;

/// Beginning of the name of a config that has none, where nothing else names it.
pub const DEFAULT_STEM: &str = "ignition";

/// Contents that a config names and does not have in itself.
#[derive(Debug, Clone, Copy)]
pub struct ReferencedContents<'a> {
    /// Files that a Butane config names.
    pub local: &'a dyn LocalFiles,
    /// Contents that an Ignition or Butane config names by URL and hash, as far as they were fetched.
    pub remote: &'a RemoteContents,
}

/// A MachineConfig as it was given, or in or from an Ignition config.
#[derive(Debug)]
pub struct ReceivedObject {
    pub config: MachineConfig,
    /// The Ignition config; `None` where a MachineConfig was given.
    pub ignition: Option<IgnitionOrigin>,
}

/// Ignition config in place of a MachineConfig.
#[derive(Debug)]
pub struct IgnitionOrigin {
    pub version: String,
    /// True if it was written as a Butane config.
    pub is_butane: bool,
    /// Names of sections and files of the Ignition config that are not applied.
    pub left_out: Vec<String>,
    /// True if the object was found in the Ignition config, where a config server puts it.
    pub is_served: bool,
}

/// Parse a MachineConfig, or an Ignition or Butane config in place of one, whose name begins with `stem` if it has none.
pub fn parse(
    bytes: &[u8],
    stem: &str,
    referenced: ReferencedContents<'_>,
) -> Result<ReceivedObject, UnresolvedConfig> {
    let ReadDocument { document, is_butane } = ReadDocument::of(bytes, referenced.local)?;
    let Some(version) = version(&document).map(str::to_owned) else {
        return Ok(ReceivedObject { config: machine_config::parse_document(document)?, ignition: None });
    };
    let carrier = carrier(document, &NameOfConfig::WithDigest(stem), referenced.remote)?;
    let config = carrier.config()?;
    let CarrierConfig { left_out, is_served, .. } = carrier;
    Ok(ReceivedObject { config, ignition: Some(IgnitionOrigin { version, is_butane, left_out, is_served }) })
}

/// Parse all configs of a document that is merged with others: MachineConfigs, or an Ignition or Butane config, which gets the
/// name of its file.
pub fn parse_all(
    bytes: &[u8],
    file: &str,
    referenced: ReferencedContents<'_>,
) -> Result<Vec<MachineConfig>, UnresolvedConfig> {
    let ReadDocument { document, .. } = ReadDocument::of(bytes, referenced.local)?;
    if version(&document).is_none() {
        return Ok(machine_config::parse_all_of(document)?);
    }
    let carrier = carrier(document, &NameOfConfig::OfFile(file), referenced.remote)?;
    let mut config = carrier.config()?;
    config.replaces_paths = true;
    Ok(vec![config])
}

/// Document of a MachineConfig, a list of them, or an Ignition config, to which a Butane config was translated.
struct ReadDocument {
    document: Value,
    is_butane: bool,
}

impl ReadDocument {
    fn of(bytes: &[u8], local: &dyn LocalFiles) -> Result<Self, RefusalList> {
        let document = document::parse(bytes)?;
        let is_butane = butane::is_butane(&document);
        let document = if is_butane { butane::translate(document, local)? } else { document };
        Ok(Self { document, is_butane })
    }
}

/// Return `text` if a name can begin with it, else the default.
#[must_use]
pub fn stem_of(text: Option<&str>) -> &str {
    let is_plain = |text: &&str| {
        let begins = text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
        begins && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    text.filter(is_plain).unwrap_or(DEFAULT_STEM)
}

/// Name of a config that has none.
enum NameOfConfig<'a> {
    /// This text, and the digest of the config.
    WithDigest(&'a str),
    /// The name of the config's file, in the letters that names have.
    OfFile(&'a str),
}

impl NameOfConfig<'_> {
    fn of(&self, document: &Value) -> String {
        match self {
            Self::WithDigest(stem) => {
                let digest = ContentDigest::of(document.to_string().as_bytes()).to_string();
                let digits = digest.rsplit(':').next().unwrap_or_default();
                format!("{stem}-{}", digits.get(..NAME_DIGITS).unwrap_or(digits))
            }
            Self::OfFile(file) => {
                let is_legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' || c == '-';
                let letters = file.chars().map(|c| c.to_ascii_lowercase()).take(NAME_LENGTH);
                letters.map(|c| if is_legal(c) { c } else { '-' }).collect()
            }
        }
    }
}

/// MachineConfig that stands for an Ignition config.
#[derive(Debug)]
struct CarrierConfig {
    /// The object as a document.
    document: Value,
    /// Keys of merged configs that have no effect.
    unused: Vec<String>,
    left_out: Vec<String>,
    is_served: bool,
}

impl CarrierConfig {
    /// Parse the object from its text, because the recorded form has to be readable too.
    fn config(&self) -> Result<MachineConfig, RefusalList> {
        let mut config = machine_config::parse(self.document.to_string().as_bytes())?;
        let known: Vec<String> =
            self.unused.iter().filter(|key| !config.ignition.unused.contains(key)).cloned().collect();
        config.ignition.unused.extend(known);
        Ok(config)
    }
}

/// Return the version of an Ignition config; `None` for any other document.
fn version(document: &Value) -> Option<&str> {
    let is_object = document.get("kind").is_some() || document.get("apiVersion").is_some();
    let version = document.get("ignition")?.get("version").and_then(Value::as_str);
    (!is_object).then_some(version.unwrap_or("unknown"))
}

/// Return the MachineConfig that stands for the Ignition config `document`.
///
/// The answer of a config server holds the MachineConfig as a file, which is taken as on the first boot of a
/// machine. Any other config becomes the `spec.config` of an object that is named by `stem` and its digest.
fn carrier(
    document: Value,
    name: &NameOfConfig<'_>,
    remote: &RemoteContents,
) -> Result<CarrierConfig, UnresolvedConfig> {
    let parsed = ignition::parse(&document, "spec.config")?;
    let files = parsed.config.storage.and_then(|storage| storage.files).unwrap_or_default();
    if let (Some(encapsulated), Some(content)) = (contents(&files, ENCAPSULATED)?, contents(&files, CONTENT)?)
    {
        return Ok(served_config(&encapsulated, &content, &files)?);
    }
    let ResolvedIgnition { document, unused } = resolve(document, remote)?;
    let left_out = WITHOUT_EFFECT.iter().filter(|section| is_filled(&document, section));
    let left_out = left_out.map(|section| format!("spec.config.{section}")).collect();
    Ok(CarrierConfig { document: wrapped(document, name), unused, left_out, is_served: false })
}

/// Decode the contents of the file at `path`; `None` if the config has no such file.
fn contents(files: &[newest::File], path: &str) -> Result<Option<Vec<u8>>, RefusalList> {
    let Some(file) = files.iter().find(|file| file.path == path) else { return Ok(None) };
    let resource = file.contents.clone().unwrap_or_default();
    let decoded =
        ContentsDecoder::default().decode(resource.source.as_deref(), resource.compression.as_deref());
    decoded.map(Some).map_err(|error| RefusalList::one(format!("file {path}"), error.to_string()))
}

fn served_config(
    encapsulated: &[u8],
    content: &[u8],
    files: &[newest::File],
) -> Result<CarrierConfig, RefusalList> {
    let document = served::configuration(encapsulated, Some(content))?;
    let kept = document.pointer("/spec/config/storage/files").and_then(Value::as_array);
    let kept: Vec<&str> = kept.into_iter().flatten().filter_map(|file| file.get("path")?.as_str()).collect();
    let added = files.iter().map(|file| file.path.as_str()).filter(|path| !kept.contains(path));
    let left_out = added.map(str::to_owned).collect();
    Ok(CarrierConfig { document, unused: Vec::new(), left_out, is_served: true })
}

/// Wrap the config. Kernel arguments move to where a MachineConfig has them.
fn wrapped(mut document: Value, name: &NameOfConfig<'_>) -> Value {
    let name = name.of(&document);
    let mut spec = Map::new();
    let arguments = document.as_object_mut().and_then(|config| config.remove("kernelArguments"));
    if let Some(arguments) = arguments.and_then(|mut section| section.get_mut("shouldExist").map(Value::take))
    {
        spec.insert("kernelArguments".to_owned(), arguments);
    }
    spec.insert("config".to_owned(), document);
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": {"name": name},
        "spec": spec,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: NameOfConfig<'_> = NameOfConfig::WithDigest(DEFAULT_STEM);

    fn carrier(document: Value, name: &NameOfConfig<'_>) -> Result<CarrierConfig, UnresolvedConfig> {
        super::carrier(document, name, &RemoteContents::default())
    }

    fn refused(document: &Value) -> Vec<String> {
        let refused = carrier(document.clone(), &NAME).unwrap_err().refusals();
        refused.as_slice().iter().map(|refusal| refusal.field.clone()).collect()
    }

    #[test]
    fn object_of_kubernetes_is_not_taken_for_an_ignition_config() {
        for document in [
            json!({"kind": "MachineConfig", "ignition": {"version": "3.4.0"}}),
            json!({"apiVersion": "v1", "ignition": {"version": "3.4.0"}}),
            json!({"storage": {}}),
            json!([{"ignition": {"version": "3.4.0"}}]),
            json!("ignition"),
        ] {
            assert_eq!(version(&document), None, "{document}");
        }
        assert_eq!(version(&json!({"ignition": {"version": "2.2.0"}})), Some("2.2.0"));
        assert_eq!(version(&json!({"ignition": {}})), Some("unknown"));
    }

    #[test]
    fn work_of_ignition_is_refused_by_name() {
        let config = |version: &str, section: &str, value: Value| {
            let mut document = json!({"ignition": {"version": version}});
            let (first, second) = section.split_once('.').unwrap();
            match second.split_once('.') {
                Some((second, third)) => document[first][second][third] = value,
                None => document[first][second] = value,
            }
            document
        };
        let merge = json!([{"source": "https://example.com/more.ign"}]);
        let rows = [
            ("3.2.0", "ignition.config.merge", "[0].source", merge.clone()),
            (
                "3.2.0",
                "ignition.config.replace",
                ".source",
                json!({"source": "https://example.com/other.ign"}),
            ),
            ("2.2.0", "ignition.config.append", "[0].source", merge),
            ("3.2.0", "storage.disks", "", json!([{"device": "/dev/vda"}])),
            (
                "3.4.0",
                "storage.raid",
                "",
                json!([{"name": "data", "level": "raid1", "devices": ["/dev/vdb"]}]),
            ),
            (
                "3.5.0",
                "storage.filesystems",
                "",
                json!([{"device": "/dev/vda4", "path": "/var", "format": "xfs"}]),
            ),
            ("3.6.0", "storage.luks", "", json!([{"name": "root", "device": "/dev/vda4"}])),
            ("3.3.0", "kernelArguments.shouldNotExist", "", json!(["quiet"])),
        ];
        for (version, section, member, value) in rows {
            assert_eq!(
                refused(&config(version, section, value)),
                [format!("spec.config.{section}{member}")],
                "{section}"
            );
            assert!(
                carrier(config(version, section, Value::Null), &NAME).is_ok(),
                "{section} without a value"
            );
        }
    }

    #[test]
    fn kernel_arguments_become_those_of_the_machine_config() {
        let document =
            json!({"ignition": {"version": "3.4.0"}, "kernelArguments": {"shouldExist": ["nosmt"]}});
        let object = carrier(document.clone(), &NAME).unwrap().document;
        assert_eq!(object["spec"]["kernelArguments"], json!(["nosmt"]));
        assert_eq!(object["spec"]["config"], json!({"ignition": {"version": "3.4.0"}}));
        let name = object["metadata"]["name"].as_str().unwrap();
        assert_eq!(name.len(), "ignition-".len() + NAME_DIGITS);
        let mut other = document.clone();
        other["kernelArguments"]["shouldExist"] = json!(["nosmt=force"]);
        assert_ne!(carrier(other, &NAME).unwrap().document["metadata"]["name"], name);
        assert_eq!(carrier(document, &NAME).unwrap().document["metadata"]["name"], name);
    }

    #[test]
    fn sections_about_fetching_are_named() {
        let document = json!({"ignition": {
            "version": "3.4.0", "timeouts": {"httpTotal": 30}, "proxy": {},
            "security": {"tls": {"certificateAuthorities": []}}, "config": {"merge": []}}});
        assert_eq!(carrier(document, &NAME).unwrap().left_out, ["spec.config.ignition.timeouts"]);
    }
}
