//! Decoding and validation of a `MachineConfig` into a [`HostConfig`]: contents are decoded, every field is
//! checked, all refusals are collected.

mod os;
mod passwd;

use std::collections::BTreeMap;

use serde_json::Value;

use super::contents::ContentsDecoder;
use super::host_config::{
    DIRECTORY_MODE, DirectorySpec, FILE_MODE, FileOwner, FileSpec, HostConfig, InheritedAttributes, LinkSpec,
    OwnerRef, PERMISSION_BITS, UNIT_DIRECTORY,
};
use super::ignition::ignored_sections;
use super::ignition::newest;
use super::machine_config::MachineConfig;
use super::render::documents;
use super::{protected, units};
use crate::core::values::kernel_arguments::tuning_file::{self, TUNING_FILE};
use crate::core::values::limits;
use crate::core::values::names::{ManagedPath, PathError};
use crate::core::values::refusal::{Refusal, RefusalList};

/// Name of the directories in which the agent prepares files, at any depth; a config must not use it.
pub const STAGING_NAME: &str = ".flameholder.d";

/// An object without a spec is cut off or misspelt, not an empty config, which would remove all that is managed.
const NO_SPEC: &str = "the object has no spec; it is cut off, or the key is misspelt";

const ALL_BITS: u32 = 0o7777;
const SPECIAL_BITS_HINT: &str = ", and special bits need Ignition 3.6.0 (`fcos` 1.7.0)";

/// Decode `config`, or refuse it with every error found, entries that no host takes among them.
pub fn decode(config: &MachineConfig) -> Result<HostConfig, RefusalList> {
    let (mut host, mut refused) = decode_entries(config);
    match config.document.get("spec") {
        None | Some(Value::Null) => refused.push(Refusal::new("spec", NO_SPEC)),
        Some(spec) => host.is_blank = is_blank(spec),
    }
    host.unknown.clone_from(&config.unknown);
    let systemd = config.ignition.config.systemd.as_ref();
    let units = systemd.and_then(|systemd| systemd.units.as_deref());
    units::refuse_syntax(units.unwrap_or_default(), &mut refused);
    refused.extend(os::unknown_extensions(config));
    refused.extend(protected::entries(&host).into_iter().map(|entry| entry.refusal));
    let arguments = config.spec.kernel_arguments.as_deref().unwrap_or_default();
    protected::refuse_kernel_arguments(arguments, &mut refused);
    RefusalList::or(refused, host)
}

/// Check if a spec says nothing, not even the version of its Ignition config.
fn is_blank(spec: &Value) -> bool {
    match spec {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.iter().all(is_blank),
        Value::Object(members) => members.values().all(is_blank),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

/// Decode a `config` that was applied already: entries that no host takes are left out and named, and so are
/// extensions that this release does not know. The syntax of unit texts is checked in a config that is to be applied only.
pub fn decode_applied(config: &MachineConfig) -> Result<HostConfig, RefusalList> {
    let (mut host, refused) = decode_entries(config);
    protected::leave_out(&mut host);
    host.left_out.extend(os::unknown_extensions(config).map(|unknown| unknown.to_string()));
    RefusalList::or(refused, host)
}

/// Decode all entries that are well formed, and refuse the others.
fn decode_entries(config: &MachineConfig) -> (HostConfig, Vec<Refusal>) {
    let mut decoding = Decoding { highest_file_mode: highest_file_mode(config), ..Decoding::default() };
    let ignition = &config.ignition.config;
    let storage = ignition.storage.clone().unwrap_or_default();
    decoding.storage(&storage);
    let units = ignition.systemd.as_ref().and_then(|systemd| systemd.units.as_deref());
    let units = units::decode(units.unwrap_or_default(), &mut decoding.refused);
    decoding.ensure_no_collisions(&units);
    let passwd = passwd::decode(ignition.passwd.as_ref(), &mut decoding.refused);
    let path_bytes: usize = decoding.fields.keys().map(|path| path.as_str().len()).sum();
    if path_bytes > limits::PATH_BYTES {
        let reason =
            format!("all paths together have {path_bytes} bytes; the limit is {}", limits::PATH_BYTES);
        decoding.refuse("spec.config.storage", reason);
    }
    let mut os = os::decode(config, &mut decoding.refused);
    let mut left_out = ignored_sections::without_effect(ignition, &storage);
    if let Some(file) = decoding.files.get(TUNING_FILE) {
        tuning_file::append(&file.contents, &mut os.kernel_arguments, &mut left_out);
    }
    let host_config = HostConfig {
        name: config.name.clone(),
        documents: documents::of(&config.metadata),
        files: decoding.files,
        directories: decoding.directories,
        links: decoding.links,
        units,
        passwd,
        os,
        unapplied: ignored_sections::compared(ignition, &storage),
        is_blank: false,
        unknown: Vec::new(),
        left_out,
    };
    (host_config, decoding.refused)
}

/// Return the attributes that an entry does not give.
fn unset_attributes(file: &newest::File) -> InheritedAttributes {
    let is_given =
        |id: Option<i64>, name: Option<&str>| id.is_some() || name.is_some_and(|name| !name.is_empty());
    let (user, group) = (file.user.as_ref(), file.group.as_ref());
    InheritedAttributes {
        mode: file.mode.is_none(),
        user: !user.is_some_and(|user| is_given(user.id, user.name.as_deref())),
        group: !group.is_some_and(|group| is_given(group.id, group.name.as_deref())),
    }
}

/// Return the highest mode of a file. Ignition sets the bits of set-user-ID, set-group-ID and sticky since version 3.6.0, but for
/// directories, and warns of them before. All versions have one-digit numbers, so that they compare as text.
fn highest_file_mode(config: &MachineConfig) -> u32 {
    let version = config.document.pointer("/spec/config/ignition/version").and_then(Value::as_str);
    if version.is_some_and(|version| version >= "3.6.0") { ALL_BITS } else { PERMISSION_BITS }
}

/// Return true for a mode such as 644 or 755: as the decimal number that JSON has, it is a sticky bit with hardly any permission,
/// and surely meant as an octal one.
fn is_octal_spelling(mode: i64) -> bool {
    (512..=777).contains(&mode) && mode.to_string().bytes().all(|digit| digit < b'8')
}

#[derive(Default)]
struct Decoding {
    highest_file_mode: u32,
    refused: Vec<Refusal>,
    decoder: ContentsDecoder,
    files: BTreeMap<ManagedPath, FileSpec>,
    directories: BTreeMap<ManagedPath, DirectorySpec>,
    links: BTreeMap<ManagedPath, LinkSpec>,
    fields: BTreeMap<ManagedPath, String>,
}

impl Decoding {
    fn refuse(&mut self, field: impl AsRef<str>, reason: impl AsRef<str>) {
        self.refused.push(Refusal::new(field, reason));
    }

    fn storage(&mut self, storage: &newest::Storage) {
        let files = storage.files.as_deref().unwrap_or_default();
        let directories = storage.directories.as_deref().unwrap_or_default();
        let links = storage.links.as_deref().unwrap_or_default();
        let entries = files.len() + directories.len() + links.len();
        if entries > limits::STORAGE_ENTRIES {
            let reason = format!(
                "the config lists {entries} files, directories and links; the limit is {}",
                limits::STORAGE_ENTRIES
            );
            return self.refuse("spec.config.storage", reason);
        }
        for (index, directory) in directories.iter().enumerate() {
            self.directory(index, directory);
        }
        for (index, file) in files.iter().enumerate() {
            self.file(index, file);
        }
        for (index, link) in links.iter().enumerate() {
            self.link(index, link);
        }
    }

    fn path(&mut self, spelled: &str, field: &str) -> Option<ManagedPath> {
        let field = format!("{field}.path");
        let path = match ManagedPath::parse(spelled) {
            Ok(path) => path,
            Err(error) => {
                let shown: String = spelled.chars().take(128).collect();
                let hint = match error {
                    PathError::Relative => "; begin it with `/`",
                    _ => "",
                };
                self.refuse(field, format!("{error}: {shown:?}{hint}"));
                return None;
            }
        };
        if let Some(earlier) = self.fields.insert(path.clone(), field.clone()) {
            self.refuse(field, format!("duplicate path {path}; also listed in {earlier}"));
            return None;
        }
        Some(path)
    }

    fn file(&mut self, index: usize, file: &newest::File) {
        let field = format!("spec.config.storage.files[{index}]");
        let Some(path) = self.path(&file.path, &field) else { return };
        let contents = self.contents(file.contents.as_ref(), &format!("{field}.contents"));
        let fragments = file.append.as_deref().unwrap_or_default();
        let append: Option<Vec<Vec<u8>>> = fragments
            .iter()
            .enumerate()
            .map(|(nth, fragment)| self.contents(Some(fragment), &format!("{field}.append[{nth}]")))
            .collect();
        let is_misspelt = file.mode.is_some_and(is_octal_spelling);
        let most = if is_misspelt { PERMISSION_BITS } else { self.highest_file_mode };
        let mode = self.mode(file.mode, FILE_MODE, most, &field);
        let owner = self.owner(file.user.as_ref(), file.group.as_ref(), &field);
        if let (Some(contents), Some(append), Some(mode), Some(owner)) = (contents, append, mode, owner) {
            let overwrite = file.overwrite;
            let has_contents = file.contents.as_ref().is_some_and(|contents| contents.source.is_some());
            let extends = !has_contents && !append.is_empty();
            let inherited = if extends { unset_attributes(file) } else { InheritedAttributes::default() };
            let spec = FileSpec { index, contents, has_contents, append, mode, owner, inherited, overwrite };
            self.files.insert(path, spec);
        }
    }

    fn directory(&mut self, index: usize, directory: &newest::Directory) {
        let field = format!("spec.config.storage.directories[{index}]");
        let Some(path) = self.path(&directory.path, &field) else { return };
        let mode = self.mode(directory.mode, DIRECTORY_MODE, ALL_BITS, &field);
        let owner = self.owner(directory.user.as_ref(), directory.group.as_ref(), &field);
        if let (Some(mode), Some(owner)) = (mode, owner) {
            self.directories.insert(path, DirectorySpec { index, mode, owner });
        }
    }

    fn link(&mut self, index: usize, link: &newest::Link) {
        let field = format!("spec.config.storage.links[{index}]");
        let Some(path) = self.path(&link.path, &field) else { return };
        let target = link.target.clone().unwrap_or_default();
        if target.is_empty() || target.chars().any(char::is_control) {
            return self.refuse(format!("{field}.target"), "the target is empty or has a control character");
        }
        let hard = link.hard == Some(true);
        if hard && ManagedPath::parse(&target).is_err() {
            return self.refuse(
                format!("{field}.target"),
                "the target of a hard link must be absolute and normalized",
            );
        }
        if let Some(owner) = self.owner(link.user.as_ref(), link.group.as_ref(), &field) {
            self.links.insert(path, LinkSpec { index, target, hard, owner });
        }
    }

    fn contents(&mut self, resource: Option<&newest::Resource>, field: &str) -> Option<Vec<u8>> {
        let source = resource.and_then(|resource| resource.source.as_deref());
        let compression = resource.and_then(|resource| resource.compression.as_deref());
        match self.decoder.decode(source, compression) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                let part = match error {
                    super::contents::ContentsError::Compression(_) => "compression",
                    _ => "source",
                };
                self.refuse(format!("{field}.{part}"), error.to_string());
                None
            }
        }
    }

    /// Return the mode, which is at most `most`.
    fn mode(&mut self, mode: Option<i64>, default: u32, most: u32, field: &str) -> Option<u32> {
        let Some(mode) = mode else { return Some(default) };
        match u32::try_from(mode) {
            Ok(mode) if mode <= most => Some(mode),
            found => {
                let is_special = found.is_ok_and(|found| found <= ALL_BITS);
                let is_too_early = is_special && self.highest_file_mode < ALL_BITS;
                let hint = if is_too_early { SPECIAL_BITS_HINT } else { "" };
                let reason = format!(
                    "the mode {mode} (octal {mode:o}) is not between 0 and {most:04o}; JSON writes modes in decimal{hint}"
                );
                self.refuse(format!("{field}.mode"), reason);
                None
            }
        }
    }

    fn owner(
        &mut self,
        user: Option<&newest::NodeUser>,
        group: Option<&newest::NodeGroup>,
        field: &str,
    ) -> Option<FileOwner> {
        let user =
            self.principal(user.map(|user| (user.id, user.name.as_deref())), &format!("{field}.user"))?;
        let group =
            self.principal(group.map(|group| (group.id, group.name.as_deref())), &format!("{field}.group"))?;
        Some(FileOwner { user, group })
    }

    /// Decode a user or group; a number wins over a name, as in MCD.
    fn principal(&mut self, named: Option<(Option<i64>, Option<&str>)>, field: &str) -> Option<OwnerRef> {
        match named {
            None | Some((None, None | Some(""))) => Some(OwnerRef::Id(0)),
            Some((Some(id), _)) => match u32::try_from(id) {
                // chown(2) takes the highest number for "no change".
                Ok(id) if id != u32::MAX => Some(OwnerRef::Id(id)),
                _ => {
                    self.refuse(format!("{field}.id"), format!("{id} is not a user or group number"));
                    None
                }
            },
            Some((None, Some(name))) => Some(OwnerRef::Name(name.to_owned())),
        }
    }

    /// Refuse paths that contradict each other: a file that is also a unit or drop-in, an entry below a file
    /// or link.
    fn ensure_no_collisions(&mut self, units: &BTreeMap<String, super::host_config::UnitSpec>) {
        let mut found = Vec::new();
        for (name, unit) in units {
            let mut taken = Vec::new();
            if unit.contents.is_some() || unit.is_masked() {
                taken.push((format!("{UNIT_DIRECTORY}/{name}"), "unit"));
            }
            let filled = unit.drop_ins.iter().filter(|(_, text)| !text.is_empty());
            taken.extend(
                filled
                    .map(|(drop_in, _)| (format!("{UNIT_DIRECTORY}/{name}.d/{drop_in}"), "drop-in of unit")),
            );
            for (path, what) in taken {
                if let Some(field) = self.fields.get(path.as_str()) {
                    let reason = format!("{path} is also written by the {what} {name}");
                    found.push(Refusal::new(field.clone(), reason));
                }
            }
        }
        for (path, field) in &self.fields {
            let leaf = |above: &ManagedPath| self.files.contains_key(above) || self.links.contains_key(above);
            if let Some(above) = path.ancestors().find(leaf) {
                let reason = format!("{path} lies below {above}, which the config makes a file or link");
                found.push(Refusal::new(field.clone(), reason));
            }
        }
        self.refused.append(&mut found);
    }
}

#[cfg(test)]
mod tests;
