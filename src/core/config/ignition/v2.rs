//! Ignition 2.0 to 2.2: parsing, and translation to the newest version with MCD's treatment of duplicates.
//! The last file of a path and the last unit of a name win; drop-ins and SSH keys of earlier duplicates are
//! kept.

use ignition_config::v3_6 as newest;
use serde::Deserialize;
use serde_json::Value;

use crate::core::values::refusal::{Refusal, RefusalList};

type Dropin = newest::Dropin;

#[derive(Debug, Deserialize)]
pub(crate) struct IgnitionV2 {
    #[serde(default)]
    ignition: Value,
    #[serde(default)]
    storage: Option<Storage>,
    #[serde(default)]
    systemd: Option<Systemd>,
    #[serde(default)]
    networkd: Option<Networkd>,
    #[serde(default)]
    passwd: Option<Passwd>,
}

#[derive(Debug, Default, Deserialize)]
struct Storage {
    #[serde(default)]
    files: Option<Vec<File>>,
    #[serde(default)]
    directories: Option<Vec<newest::Directory>>,
    #[serde(default)]
    links: Option<Vec<newest::Link>>,
    #[serde(default)]
    disks: Option<Vec<Value>>,
    #[serde(default)]
    raid: Option<Vec<Value>>,
    #[serde(default)]
    filesystems: Option<Vec<Value>>,
}

#[derive(Debug, Deserialize)]
struct File {
    #[serde(default)]
    filesystem: Option<String>,
    path: String,
    #[serde(default)]
    append: Option<bool>,
    #[serde(default)]
    contents: Option<Contents>,
    #[serde(default)]
    mode: Option<i64>,
    #[serde(default)]
    overwrite: Option<bool>,
    #[serde(default)]
    user: Option<newest::NodeUser>,
    #[serde(default)]
    group: Option<newest::NodeGroup>,
}

#[derive(Debug, Default, Deserialize)]
struct Contents {
    #[serde(default)]
    compression: Option<String>,
    #[serde(default)]
    source: Option<String>,
    #[serde(default)]
    verification: Option<newest::Verification>,
}

#[derive(Debug, Default, Deserialize)]
struct Systemd {
    #[serde(default)]
    units: Option<Vec<Unit>>,
}

#[derive(Debug, Deserialize)]
struct Unit {
    name: String,
    #[serde(default)]
    enable: Option<bool>,
    #[serde(default)]
    enabled: Option<bool>,
    #[serde(default)]
    mask: Option<bool>,
    #[serde(default)]
    contents: Option<String>,
    #[serde(default)]
    dropins: Option<Vec<Dropin>>,
}

#[derive(Debug, Default, Deserialize)]
struct Networkd {
    #[serde(default)]
    units: Option<Vec<Value>>,
}

#[derive(Debug, Default, Deserialize)]
struct Passwd {
    #[serde(default)]
    users: Option<Vec<newest::User>>,
    #[serde(default)]
    groups: Option<Vec<newest::Group>>,
}

impl IgnitionV2 {
    /// Translate to the newest version; sections without an equivalent on a running host are refused.
    pub(crate) fn translate(self, field: &str) -> Result<newest::Config, RefusalList> {
        let mut refused = Vec::new();
        let storage = self.storage.unwrap_or_default();
        refuse_unless_empty(&mut refused, field, "storage.disks", storage.disks.as_deref());
        refuse_unless_empty(&mut refused, field, "storage.raid", storage.raid.as_deref());
        let own_filesystems = storage.filesystems.as_deref().map(|all| {
            let foreign = |fs: &&Value| fs.get("name").and_then(Value::as_str) != Some("root");
            all.iter().filter(foreign).cloned().collect::<Vec<_>>()
        });
        let filesystems = own_filesystems.as_deref();
        refuse_unless_empty(&mut refused, field, "storage.filesystems", filesystems);
        let networkd = self.networkd.unwrap_or_default().units;
        refuse_unless_empty(&mut refused, field, "networkd.units", networkd.as_deref());
        let files = storage.files.unwrap_or_default();
        for (index, file) in files.iter().enumerate() {
            if !matches!(file.filesystem.as_deref(), None | Some("" | "root")) {
                let field = format!("{field}.storage.files[{index}].filesystem");
                refused.push(Refusal::new(field, "only the file system `root` can be written"));
            }
        }
        let passwd = self.passwd.unwrap_or_default();
        let users = merged_users(passwd.users.unwrap_or_default(), field, &mut refused);
        let units = self.systemd.unwrap_or_default().units.unwrap_or_default();
        let config = newest::Config {
            ignition: newest::Ignition {
                config: Some(other_configs(&self.ignition)),
                ..newest::Ignition::default()
            },
            storage: Some(newest::Storage {
                files: Some(last_of_each_path(files)),
                directories: storage.directories,
                links: storage.links,
                ..Default::default()
            }),
            systemd: Some(newest::Systemd { units: Some(last_of_each_name(units)) }),
            passwd: Some(newest::Passwd { users: Some(users), groups: passwd.groups }),
            ..Default::default()
        };
        RefusalList::or(refused, config)
    }
}

/// Translate the references to other configs.
fn other_configs(ignition: &Value) -> newest::IgnitionConfig {
    let resource = |config: &Value| {
        let source = config.get("source").and_then(Value::as_str).map(str::to_owned);
        let hash = config.pointer("/verification/hash").and_then(Value::as_str).map(str::to_owned);
        let verification = hash.map(|hash| newest::Verification { hash: Some(hash) });
        newest::Resource { source, verification, ..newest::Resource::default() }
    };
    let appended = ignition.pointer("/config/append").and_then(Value::as_array);
    newest::IgnitionConfig {
        merge: appended.map(|configs| configs.iter().map(resource).collect()),
        replace: ignition.pointer("/config/replace").map(resource),
    }
}

fn refuse_unless_empty(refused: &mut Vec<Refusal>, field: &str, section: &str, found: Option<&[Value]>) {
    if found.is_some_and(|items| !items.is_empty()) {
        let field = format!("{field}.{section}");
        refused.push(Refusal::new(field, "this section of Ignition 2.x is not supported"));
    }
}

fn last_of_each_path(files: Vec<File>) -> Vec<newest::File> {
    let mut kept: Vec<newest::File> = Vec::new();
    for file in files.into_iter().rev() {
        if !kept.iter().any(|later| later.path == file.path) {
            kept.push(translate_file(file));
        }
    }
    kept.reverse();
    kept
}

fn translate_file(file: File) -> newest::File {
    let contents = file.contents.unwrap_or_default();
    let resource = newest::Resource {
        compression: contents.compression,
        source: contents.source,
        verification: contents.verification,
        ..Default::default()
    };
    let append = file.append == Some(true);
    newest::File {
        append: append.then(|| vec![resource.clone()]),
        contents: (!append).then_some(resource),
        mode: file.mode,
        overwrite: Some(file.overwrite.unwrap_or(true)),
        user: file.user,
        group: file.group,
        ..newest::File::new(file.path)
    }
}

fn last_of_each_name(units: Vec<Unit>) -> Vec<newest::Unit> {
    let mut kept: Vec<newest::Unit> = Vec::new();
    for unit in units.into_iter().rev() {
        let dropins = unit.dropins.unwrap_or_default();
        if let Some(later) = kept.iter_mut().find(|later| later.name == unit.name) {
            let known = later.dropins.get_or_insert_default();
            let fresh: Vec<Dropin> = dropins
                .into_iter()
                .filter(|dropin| !known.iter().any(|known| known.name == dropin.name))
                .collect();
            known.extend(fresh);
            continue;
        }
        let deprecated = unit.enable.filter(|enable| *enable);
        kept.push(newest::Unit {
            contents: unit.contents,
            dropins: Some(dropins),
            enabled: unit.enabled.or(deprecated),
            mask: unit.mask.filter(|mask| *mask),
            ..newest::Unit::new(unit.name)
        });
    }
    kept.reverse();
    kept
}

/// Merge all entries of the user `core` into one: the fields of the last entry, and the SSH keys of all,
/// those of later entries first.
fn merged_users(users: Vec<newest::User>, field: &str, refused: &mut Vec<Refusal>) -> Vec<newest::User> {
    let mut merged: Option<newest::User> = None;
    for (index, mut user) in users.into_iter().enumerate().rev() {
        if user.name != "core" {
            let field = format!("{field}.passwd.users[{index}].name");
            refused.push(Refusal::new(field, "only the user `core` can be configured"));
            continue;
        }
        let keys = user.ssh_authorized_keys.take().unwrap_or_default();
        let into = merged.get_or_insert(user);
        let known = into.ssh_authorized_keys.get_or_insert_default();
        for key in keys {
            if !known.contains(&key) {
                known.push(key);
            }
        }
    }
    merged.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::core::config::ignition::parse;

    #[test]
    fn duplicates_are_merged_as_in_mcd() {
        let config = json!({
            "ignition": {"version": "2.2.0"},
            "storage": {"files": [
                {"filesystem": "root", "path": "/etc/a", "mode": 420, "contents": {"source": "data:,old"}},
                {"filesystem": "root", "path": "/etc/a", "mode": 384, "contents": {"source": "data:,new"}}]},
            "systemd": {"units": [
                {"name": "x.service", "contents": "[Unit]", "dropins": [{"name": "a.conf", "contents": "1"}, {"name": "b.conf"}]},
                {"name": "x.service", "enable": true, "dropins": [{"name": "a.conf", "contents": "2"}]}]},
            "passwd": {"users": [
                {"name": "core", "sshAuthorizedKeys": ["k1", "k2"]},
                {"name": "core", "sshAuthorizedKeys": ["k2", "k3"]}]},
        });
        let config = parse(&config, "spec.config").unwrap().config;
        let files = config.storage.unwrap().files.unwrap();
        assert_eq!(files.len(), 1);
        assert_eq!(files[0].mode, Some(384));
        let units = config.systemd.unwrap().units.unwrap();
        assert_eq!((units.len(), units[0].enabled), (1, Some(true)));
        let names: Vec<_> = units[0].dropins.as_ref().unwrap().iter().map(|d| d.name.as_str()).collect();
        assert_eq!(names, ["a.conf", "b.conf"]);
        let users = config.passwd.unwrap().users.unwrap();
        assert_eq!(users[0].ssh_authorized_keys.as_ref().unwrap(), &["k2", "k3", "k1"]);
    }
}
