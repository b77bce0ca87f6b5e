//! Translation: everything that names a local file is replaced by the file's contents. Types of values are checked by the reader
//! of the result.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use super::local_files::{LocalFileError, LocalFiles, ensure_beneath};
use super::version::{ButaneVariant, ButaneVersion};
use super::{keys, local_trees};
use crate::core::config::ignition::AT_INSTALLATION;
use crate::core::values::refusal::{Refusal, RefusalList};

/// Sections with other Ignition configs.
const OTHER_CONFIGS: [&str; 2] = ["ignition.config.merge", "ignition.config.replace"];
const IN_MACHINE_CONFIG: &str =
    "a MachineConfig has no other configs; give them as documents of their own beside this one";

const EXPECTED_TEXT: &str = "expected a text";
pub(super) const EXPECTED_LIST: &str = "expected a list";
pub(super) const EXPECTED_SECTION: &str = "expected keys and values";

/// Translate a Butane config to an Ignition config, or to a `MachineConfig`, or refuse it with every problem found. `local` has
/// the files that it names.
pub fn translate(document: Value, local: &dyn LocalFiles) -> Result<Value, RefusalList> {
    let version = ButaneVersion::of(&document)?;
    // A key without a value is an absent one, as in Butane.
    let mut document = without_nulls(document);
    let mut translation = ButaneTranslation { version, local, refused: Vec::new() };
    translation.check_keys(&document, "", "");
    translation.refuse_first_boot(&document);
    translation.other_configs(&mut document);
    translation.files(&mut document);
    translation.units(&mut document);
    translation.users(&mut document);
    local_trees::expand(&mut document, &mut translation);
    let mut ignition = document.get_mut("ignition").map(Value::take).unwrap_or(json!({}));
    match ignition.as_object_mut() {
        Some(section) => drop(section.insert("version".to_owned(), version.ignition().into())),
        None => translation.refuse("ignition", EXPECTED_SECTION),
    }
    if document.get("openshift").is_some_and(|section| !section.is_object()) {
        translation.refuse("openshift", EXPECTED_SECTION);
    }
    RefusalList::or(translation.refused, ())?;
    Ok(assembled(document, ignition, version))
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

    /// Refuse keys that the version does not define. `path` is `field` without indices.
    fn check_keys(&mut self, value: &Value, path: &str, field: &str) {
        match value {
            Value::Object(members) => {
                for (key, member) in members {
                    let (path, field) = (joined(path, key), joined(field, key));
                    match keys::problem_of(&path, self.version) {
                        Some(problem) => self.refuse(&field, problem),
                        None if keys::is_passed_on(&path) => {}
                        None => self.check_keys(member, &path, &field),
                    }
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.check_keys(item, path, &format!("{field}[{index}]"));
                }
            }
            _ => {}
        }
    }

    fn refuse_first_boot(&mut self, document: &Value) {
        let others = OTHER_CONFIGS.map(|section| (section, IN_MACHINE_CONFIG));
        let is_object = self.version.variant == ButaneVariant::OpenShift;
        let others = others.into_iter().filter(|_| is_object);
        for (section, reason) in
            keys::AT_FIRST_BOOT.map(|section| (section, AT_INSTALLATION)).into_iter().chain(others)
        {
            if document.pointer(&format!("/{}", section.replace('.', "/"))).is_some_and(is_filled) {
                self.refuse(section, reason);
            }
        }
    }

    /// Turn the contents of other Ignition configs into data URLs.
    fn other_configs(&mut self, document: &mut Value) {
        for (index, other) in objects(document, "/ignition/config/merge") {
            self.resource(other, &format!("ignition.config.merge[{index}]"));
        }
        let other = document.pointer_mut("/ignition/config/replace").and_then(Value::as_object_mut);
        if let Some(other) = other {
            self.resource(other, "ignition.config.replace");
        }
    }

    fn files(&mut self, document: &mut Value) {
        for (index, file) in objects(document, "/storage/files") {
            let field = format!("storage.files[{index}]");
            if let Some(contents) = file.get_mut("contents").and_then(Value::as_object_mut) {
                self.resource(contents, &format!("{field}.contents"));
            }
            let append = file.get_mut("append").and_then(Value::as_array_mut);
            for (nth, fragment) in append.into_iter().flatten().enumerate() {
                if let Some(fragment) = fragment.as_object_mut() {
                    self.resource(fragment, &format!("{field}.append[{nth}]"));
                }
            }
        }
    }

    /// Turn inline and local contents into a data URL.
    fn resource(&mut self, resource: &mut Map<String, Value>, field: &str) {
        if ["inline", "local", "source"].iter().filter(|key| resource.contains_key(**key)).count() > 1 {
            return self.refuse(field, "only one of `inline`, `local` and `source` can be set");
        }
        let inline = self.take_text(resource, "inline", field).map(String::into_bytes);
        let contents = inline.or_else(|| {
            let path = self.take_text(resource, "local", field)?;
            self.read(&path, &format!("{field}.local"))
        });
        if let Some(bytes) = contents {
            resource.insert("source".to_owned(), data_url(&bytes).into());
        }
    }

    fn units(&mut self, document: &mut Value) {
        for (index, unit) in objects(document, "/systemd/units") {
            let field = format!("systemd.units[{index}]");
            self.text(unit, &field);
            let drop_ins = unit.get_mut("dropins").and_then(Value::as_array_mut);
            for (nth, drop_in) in drop_ins.into_iter().flatten().enumerate() {
                if let Some(drop_in) = drop_in.as_object_mut() {
                    self.text(drop_in, &format!("{field}.dropins[{nth}]"));
                }
            }
        }
    }

    /// Read the text of a unit or drop-in that a local file has.
    fn text(&mut self, unit: &mut Map<String, Value>, field: &str) {
        let Some(path) = self.take_text(unit, "contents_local", field) else { return };
        let field = format!("{field}.contents_local");
        if unit.contains_key("contents") {
            return self.refuse(&field, "only one of `contents` and `contents_local` can be set");
        }
        if let Some(text) = self.read_text(&path, &field) {
            unit.insert("contents".to_owned(), text.into());
        }
    }

    /// Add the keys that local files list, one per line.
    fn users(&mut self, document: &mut Value) {
        for (index, user) in objects(document, "/passwd/users") {
            let field = format!("passwd.users[{index}].ssh_authorized_keys_local");
            let Some(files) = user.remove("ssh_authorized_keys_local") else { continue };
            let Value::Array(files) = files else {
                self.refuse(&field, EXPECTED_LIST);
                continue;
            };
            let mut keys = Vec::new();
            for (nth, file) in files.iter().enumerate() {
                let field = format!("{field}[{nth}]");
                let Some(path) = file.as_str() else {
                    self.refuse(&field, EXPECTED_TEXT);
                    continue;
                };
                let text = self.read_text(path, &field).unwrap_or_default();
                let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
                keys.extend(lines.map(Value::from));
            }
            match user.entry("ssh_authorized_keys").or_insert_with(|| json!([])) {
                Value::Array(listed) => listed.extend(keys),
                _ => self.refuse(&field, "`ssh_authorized_keys` is no list"),
            }
        }
    }

    pub(super) fn take_text(
        &mut self,
        object: &mut Map<String, Value>,
        key: &str,
        field: &str,
    ) -> Option<String> {
        if let Value::String(text) = object.remove(key)? {
            return Some(text);
        }
        self.refuse(&format!("{field}.{key}"), EXPECTED_TEXT);
        None
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

/// Iterate over the objects of a list, each with its index.
fn objects<'d>(
    document: &'d mut Value,
    list: &str,
) -> impl Iterator<Item = (usize, &'d mut Map<String, Value>)> {
    let items = document.pointer_mut(list).and_then(Value::as_array_mut);
    items.into_iter().flatten().enumerate().filter_map(|(index, item)| Some((index, item.as_object_mut()?)))
}

fn joined(above: &str, key: &str) -> String {
    if above.is_empty() { key.to_owned() } else { format!("{above}.{key}") }
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
fn assembled(mut document: Value, ignition: Value, version: ButaneVersion) -> Value {
    let mut config = Map::from_iter([("ignition".to_owned(), keys::camel_case(ignition))]);
    let mut section =
        |name: &str| keys::camel_case(document.get_mut(name).map(Value::take).unwrap_or_default());
    for name in ["kernel_arguments", "passwd", "storage", "systemd"] {
        let value = section(name);
        if is_filled(&value) {
            let name = if name == "kernel_arguments" { "kernelArguments" } else { name };
            config.insert(name.to_owned(), value);
        }
    }
    if version.variant == ButaneVariant::FedoraCoreOs {
        return Value::Object(config);
    }
    let mut spec = match section("openshift") {
        Value::Object(spec) => spec,
        _ => Map::new(),
    };
    spec.insert("config".to_owned(), Value::Object(config));
    let metadata = document.get_mut("metadata").map(Value::take).unwrap_or_default();
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": metadata,
        "spec": spec,
    })
}
