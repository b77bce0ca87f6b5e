//! Translation: everything that names a local file is replaced by the file's contents.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::fields::{ButaneConfig, FileFields, ResourceFields, StorageSection, UnitFields, UserFields};
use super::local_files::{LocalFileError, LocalFiles, ensure_beneath};
use super::local_trees;
use super::version::{ButaneVariant, ButaneVersion};
use crate::core::config::ignition;
use crate::core::values::refusal::{Refusal, RefusalList};

const AT_INSTALLATION: &str =
    "only Ignition does this, at the first boot of a machine; remove the section, or reinstall the machine";
const OTHER_CONFIGS: &str = "other configs are fetched by Ignition only; give the merged config";

/// Translate a config to an Ignition config, or to a MachineConfig, with every problem found.
pub(super) fn translate(document: &Value, local: &dyn LocalFiles) -> Result<Value, RefusalList> {
    let version = ButaneVersion::of(document)?;
    // An empty value is an absent one, as in Butane.
    let (mut config, unknown) = ignition::typed::<ButaneConfig>(&without_nulls(document.clone()), "")?;
    let mut translation = ButaneTranslation { version, local, refused: Vec::new() };
    for key in unknown {
        translation.refuse(&key, "unknown key; the version does not define it");
    }
    translation.refuse_first_boot(&config);
    translation.storage(&mut config.storage);
    for (index, unit) in config.systemd.units.iter_mut().enumerate() {
        translation.unit(unit, &format!("systemd.units[{index}]"));
    }
    for (index, user) in config.passwd.users.iter_mut().enumerate() {
        translation.keys(user, &format!("passwd.users[{index}]"));
    }
    translation.variant(&config);
    RefusalList::or(translation.refused, ())?;
    Ok(assembled(config, version))
}

/// Translation of one config, and its problems so far.
pub(super) struct ButaneTranslation<'a> {
    version: ButaneVersion,
    pub(super) local: &'a dyn LocalFiles,
    refused: Vec<Refusal>,
}

impl ButaneTranslation<'_> {
    pub(super) fn refuse(&mut self, field: &str, reason: impl AsRef<str>) {
        self.refused.push(Refusal::new(field, reason));
    }

    /// Refuse a key that came with a later version than the config's.
    fn ensure_defined(&mut self, key: &str, field: &str) {
        if !self.version.defines(key) {
            self.refuse(field, "unknown key; a later version of the variant defines it");
        }
    }

    fn refuse_first_boot(&mut self, config: &ButaneConfig) {
        let storage = &config.storage;
        let sections = [
            ("boot_device", &config.boot_device),
            ("grub", &config.grub),
            ("storage.disks", &storage.disks),
            ("storage.raid", &storage.raid),
            ("storage.filesystems", &storage.filesystems),
            ("storage.luks", &storage.luks),
        ];
        for (section, _) in sections.into_iter().filter(|(_, value)| is_filled(value)) {
            self.refuse(section, AT_INSTALLATION);
        }
        for name in ["merge", "replace"] {
            let named = config.ignition.get("config").and_then(|configs| configs.get(name));
            if named.is_some_and(is_filled) {
                self.refuse(&format!("ignition.config.{name}"), OTHER_CONFIGS);
            }
        }
    }

    /// Refuse sections of the other variant.
    fn variant(&mut self, config: &ButaneConfig) {
        let sections: [(&str, bool); 2] = match self.version.variant {
            ButaneVariant::FedoraCoreOs => {
                [("metadata", config.metadata.is_some()), ("openshift", config.openshift.is_some())]
            }
            ButaneVariant::OpenShift => {
                [("kernel_arguments", config.kernel_arguments.is_some()), ("", false)]
            }
        };
        for (section, _) in sections.into_iter().filter(|(_, is_there)| *is_there) {
            self.refuse(section, "unknown key; another variant defines it");
        }
        if config.kernel_arguments.is_some() {
            self.ensure_defined("kernel_arguments", "kernel_arguments");
        }
    }

    fn storage(&mut self, storage: &mut StorageSection) {
        for (index, file) in storage.files.iter_mut().enumerate() {
            self.file(file, &format!("storage.files[{index}]"));
        }
        if !storage.trees.is_empty() {
            self.ensure_defined("storage.trees", "storage.trees");
        }
        local_trees::expand(storage, self);
    }

    fn file(&mut self, file: &mut FileFields, field: &str) {
        if let Some(contents) = &mut file.contents {
            self.resource(contents, &format!("{field}.contents"));
        }
        for (nth, fragment) in file.append.iter_mut().enumerate() {
            self.resource(fragment, &format!("{field}.append[{nth}]"));
        }
    }

    /// Turn inline and local contents into a data URL.
    fn resource(&mut self, resource: &mut ResourceFields, field: &str) {
        let given = [resource.source.is_some(), resource.inline.is_some(), resource.local.is_some()];
        if given.into_iter().filter(|is_given| *is_given).count() > 1 {
            return self.refuse(field, "only one of `inline`, `local` and `source` can be set");
        }
        if let Some(text) = resource.inline.take() {
            resource.source = Some(data_url(text.as_bytes()));
        }
        if let Some(path) = resource.local.take()
            && let Some(bytes) = self.read(&path, &format!("{field}.local"))
        {
            resource.source = Some(data_url(&bytes));
        }
    }

    fn unit(&mut self, unit: &mut UnitFields, field: &str) {
        self.text(&mut unit.contents, unit.contents_local.take(), field);
        for (index, drop_in) in unit.dropins.iter_mut().enumerate() {
            self.text(
                &mut drop_in.contents,
                drop_in.contents_local.take(),
                &format!("{field}.dropins[{index}]"),
            );
        }
    }

    /// Read the text of a unit or drop-in that a local file has.
    fn text(&mut self, contents: &mut Option<String>, local: Option<String>, field: &str) {
        let Some(path) = local else { return };
        let field = format!("{field}.contents_local");
        self.ensure_defined("contents_local", &field);
        if contents.is_some() {
            return self.refuse(&field, "only one of `contents` and `contents_local` can be set");
        }
        *contents = self.read_text(&path, &field);
    }

    /// Add the keys that local files list, one per line.
    fn keys(&mut self, user: &mut UserFields, field: &str) {
        for (index, path) in std::mem::take(&mut user.ssh_authorized_keys_local).into_iter().enumerate() {
            let field = format!("{field}.ssh_authorized_keys_local[{index}]");
            self.ensure_defined("ssh_authorized_keys_local", &field);
            let text = self.read_text(&path, &field).unwrap_or_default();
            let keys = text.lines().map(str::trim).filter(|line| !line.is_empty());
            user.ssh_authorized_keys.extend(keys.map(str::to_owned));
        }
    }

    fn read_text(&mut self, path: &str, field: &str) -> Option<String> {
        let text = String::from_utf8(self.read(path, field)?).ok();
        if text.is_none() {
            self.refuse(field, "the file is not UTF-8");
        }
        text
    }

    fn read(&mut self, path: &str, field: &str) -> Option<Vec<u8>> {
        let read = ensure_beneath(path).and_then(|()| self.local.read(path));
        read.map_err(|error: LocalFileError| self.refuse(field, error.to_string())).ok()
    }
}

/// Encode contents as the source of a file.
pub(super) fn data_url(bytes: &[u8]) -> String {
    format!("data:;base64,{}", BASE64_STANDARD.encode(bytes))
}

fn is_filled(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => true,
    }
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.into_iter().filter(|(_, member)| !member.is_null());
            members.map(|(name, member)| (name, without_nulls(member))).collect()
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

/// Put the Ignition config together, and around it the `MachineConfig` of that variant.
fn assembled(config: ButaneConfig, version: ButaneVersion) -> Value {
    let mut ignition = config.ignition;
    ignition.insert("version".to_owned(), version.ignition().into());
    let mut document = Map::from_iter([("ignition".to_owned(), camel_case(Value::Object(ignition)))]);
    let sections = [
        ("kernelArguments", config.kernel_arguments.map_or(Value::Null, |section| fields_of(&section))),
        ("passwd", fields_of(&config.passwd)),
        ("storage", fields_of(&config.storage)),
        ("systemd", fields_of(&config.systemd)),
    ];
    let filled = sections.into_iter().filter(|(_, section)| is_filled(section));
    document.extend(filled.map(|(name, section)| (name.to_owned(), section)));
    if version.variant == ButaneVariant::FedoraCoreOs {
        return Value::Object(document);
    }
    let mut spec = fields_of(&config.openshift.unwrap_or_default());
    if let Some(spec) = spec.as_object_mut() {
        spec.insert("config".to_owned(), Value::Object(document));
    }
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": config.metadata.unwrap_or_default(),
        "spec": spec,
    })
}

fn fields_of(section: &impl Serialize) -> Value {
    serde_json::to_value(section).expect("a section has only string keys")
}

/// Spell the keys of a section that is passed on as Ignition does.
fn camel_case(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            members.into_iter().map(|(name, member)| (camel_case_key(&name), camel_case(member))).collect()
        }
        Value::Array(items) => items.into_iter().map(camel_case).collect(),
        other => other,
    }
}

fn camel_case_key(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut key, word| {
        let mut characters = word.chars();
        key.extend(characters.next().map(|first| first.to_ascii_uppercase()));
        key.push_str(characters.as_str());
        key
    })
}
