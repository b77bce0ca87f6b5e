//! Merge of a child Ignition config over its parent, by the rules of 3.5 (Ignition's `config/merge` and the
//! keys of its `config/v3_5/types`).
//!
//! A field that the child sets wins, an absent one keeps the parent's value, sections are merged field by
//! field. List items are matched by a key: a matched item is merged in place, any other item of the child is
//! appended. The merge of two valid configs may be invalid, so the caller must validate the result.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{newest, storage_paths};

type Object = Map<String, Value>;

/// Lists without keys: the child's items are appended to the parent's, duplicates included.
const CONCATENATED: [&str; 3] = ["append", "mountOptions", "options"];
/// Lists of one section that share their keys: an item in one list of the child removes items with its key
/// from the parent's other lists.
const SHARED: [&[&str]; 2] = [&["directories", "files", "links"], &["shouldExist", "shouldNotExist"]];

/// Merge `child` over `parent`.
#[must_use]
pub fn merge(parent: &newest::Config, child: &newest::Config) -> newest::Config {
    let merged = merge_objects(fields(parent), fields(child));
    serde_json::from_value(Value::Object(merged)).expect("merging keeps the type of every field")
}

/// Remove from `parent` the files, directories and links whose paths `child` lists.
pub fn remove_paths_of(parent: &mut newest::Config, child: &newest::Config) {
    let listed: BTreeSet<&str> = storage_paths(child).into_iter().collect();
    let Some(storage) = &mut parent.storage else { return };
    if let Some(files) = &mut storage.files {
        files.retain(|file| !listed.contains(file.path.as_str()));
    }
    if let Some(links) = &mut storage.links {
        links.retain(|link| !listed.contains(link.path.as_str()));
    }
    if let Some(directories) = &mut storage.directories {
        directories.retain(|directory| !listed.contains(directory.path.as_str()));
    }
}

/// Remove null and empty members, which the cluster omits too.
pub(in crate::core::config) fn without_empty(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.into_iter().map(|(name, member)| (name, without_empty(member)));
            members.filter(|(_, member)| !says_nothing(member)).collect()
        }
        Value::Array(items) => items.into_iter().map(without_empty).collect(),
        other => other,
    }
}

fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

fn fields(config: &newest::Config) -> Object {
    let fields = serde_json::to_value(config).and_then(serde_json::from_value);
    fields.expect("a config is an object with string keys")
}

fn merge_objects(mut parent: Object, child: Object) -> Object {
    for siblings in SHARED {
        remove_displaced(&mut parent, &child, siblings);
    }
    for (field, new) in child {
        let old = parent.remove(&field).unwrap_or_default();
        let merged = match (old, new) {
            (old, Value::Null) => old,
            (Value::Object(old), Value::Object(new)) => Value::Object(merge_objects(old, new)),
            (Value::Array(old), Value::Array(new)) => Value::Array(merge_lists(&field, old, new)),
            (_, new) => new,
        };
        parent.insert(field, merged);
    }
    parent
}

fn merge_lists(list: &str, mut parent: Vec<Value>, child: Vec<Value>) -> Vec<Value> {
    if CONCATENATED.contains(&list) {
        parent.extend(child);
        return parent;
    }
    let known: BTreeSet<String> = parent.iter().map(|item| key(list, item)).collect();
    let news: BTreeMap<String, &Value> = child.iter().map(|item| (key(list, item), item)).collect();
    let mut merged: Vec<Value> = parent
        .into_iter()
        .filter_map(|old| match news.get(&key(list, &old)) {
            Some(new) => merge_items(list, old, new),
            None => Some(old),
        })
        .collect();
    merged.extend(child.into_iter().filter(|item| !known.contains(&key(list, item))));
    merged
}

/// Merge two items with the same key. An HTTP header without a value removes the parent's.
fn merge_items(list: &str, old: Value, new: &Value) -> Option<Value> {
    if list == "httpHeaders" && new.get("value").is_none_or(Value::is_null) {
        return None;
    }
    Some(match (old, new) {
        (Value::Object(old), Value::Object(new)) => Value::Object(merge_objects(old, new.clone())),
        (_, new) => new.clone(),
    })
}

/// Remove from each of the parent's `siblings` the items that the child has in another of these lists.
fn remove_displaced(parent: &mut Object, child: &Object, siblings: &[&str]) {
    for list in siblings {
        let others = siblings.iter().filter(|other| *other != list);
        let elsewhere: BTreeSet<String> = others
            .filter_map(|other| Some((other, child.get(*other)?.as_array()?)))
            .flat_map(|(other, items)| items.iter().map(move |item| key(other, item)))
            .collect();
        if let Some(Value::Array(items)) = parent.get_mut(*list) {
            items.retain(|item| !elsewhere.contains(&key(list, item)));
        }
    }
}

/// The key by which an item of `list` is matched; a bare string is its own key.
fn key(list: &str, item: &Value) -> String {
    let field = match list {
        "directories" | "files" | "links" => "path",
        "disks" | "filesystems" => "device",
        "certificateAuthorities" | "merge" => "source",
        "tang" => "url",
        "partitions" => return partition_key(item),
        _ => "name",
    };
    let text = item.as_str().or_else(|| item.get(field)?.as_str());
    text.unwrap_or_default().to_owned()
}

/// The key of a partition: its number, or its label if the number is 0 (next free one).
fn partition_key(partition: &Value) -> String {
    match partition.get("number").and_then(Value::as_i64) {
        Some(number) if number != 0 => format!("number:{number}"),
        _ => match partition.get("label").and_then(Value::as_str) {
            Some(label) => format!("label:{label}"),
            None => String::new(),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::core::config::ignition::parse;

    fn config(sections: &Value) -> newest::Config {
        let mut config = json!({"ignition": {"version": "3.5.0"}});
        let fields = config.as_object_mut().unwrap();
        fields.extend(sections.as_object().unwrap().clone());
        parse(&config, "spec.config").unwrap().config
    }

    /// Check rows of (rule, parent, child, expected result).
    fn assert_merges(rows: &[(&str, Value, Value, Value)]) {
        for (rule, parent, child, expected) in rows {
            let merged = merge(&config(parent), &config(child));
            assert_eq!(merged, config(expected), "{rule}");
        }
    }

    #[test]
    fn items_with_the_same_key_merge_in_place() {
        let files = |files: Value| json!({"storage": {"files": files}});
        let units = |units: Value| json!({"systemd": {"units": units}});
        assert_merges(&[
            (
                "a field that the child leaves out keeps its value",
                files(
                    json!([{"path": "/a", "mode": 384, "user": {"name": "core"}, "contents": {"source": "data:,1"}}]),
                ),
                files(json!([{"path": "/a", "group": {"id": 7}, "contents": {"source": "data:,2"}}])),
                files(json!([{"path": "/a", "mode": 384, "user": {"name": "core"}, "group": {"id": 7},
                    "contents": {"source": "data:,2"}}])),
            ),
            (
                "places are the parent's, new items follow in the child's order",
                files(json!([{"path": "/a"}, {"path": "/b"}, {"path": "/c"}])),
                files(json!([{"path": "/z"}, {"path": "/b", "mode": 1}, {"path": "/y"}])),
                files(
                    json!([{"path": "/a"}, {"path": "/b", "mode": 1}, {"path": "/c"}, {"path": "/z"}, {"path": "/y"}]),
                ),
            ),
            (
                "a null and an empty list say nothing",
                units(json!([{"name": "a.service", "enabled": true, "dropins": [{"name": "1.conf"}]}])),
                units(json!([{"name": "a.service", "enabled": null, "contents": null, "dropins": []}])),
                units(json!([{"name": "a.service", "enabled": true, "dropins": [{"name": "1.conf"}]}])),
            ),
            (
                "false and the empty string are values",
                units(json!([{"name": "a.service", "enabled": true, "contents": "[Unit]"}])),
                units(json!([{"name": "a.service", "enabled": false, "contents": ""}])),
                units(json!([{"name": "a.service", "enabled": false, "contents": ""}])),
            ),
            (
                "drop-ins by name",
                units(
                    json!([{"name": "a.service", "dropins": [{"name": "1.conf", "contents": "a"}, {"name": "2.conf"}]}]),
                ),
                units(
                    json!([{"name": "a.service", "dropins": [{"name": "3.conf"}, {"name": "1.conf", "contents": "b"}]}]),
                ),
                units(json!([{"name": "a.service",
                    "dropins": [{"name": "1.conf", "contents": "b"}, {"name": "2.conf"}, {"name": "3.conf"}]}])),
            ),
        ]);
    }

    #[test]
    fn items_of_nested_lists_merge_by_key() {
        let user = |more: Value| json!({"passwd": {"users": [more], "groups": [{"name": "g", "gid": 7}]}});
        assert_merges(&[
            (
                "keys and groups of a user are matched as they are",
                user(
                    json!({"name": "core", "uid": 9, "sshAuthorizedKeys": ["k1", "k2"], "groups": ["wheel"]}),
                ),
                user(json!({"name": "core", "sshAuthorizedKeys": ["k3", "k1"], "groups": ["wheel", "sudo"]})),
                user(
                    json!({"name": "core", "uid": 9, "sshAuthorizedKeys": ["k1", "k2", "k3"], "groups": ["wheel", "sudo"]}),
                ),
            ),
            (
                "partitions by number, or by label",
                json!({"storage": {"disks": [{"device": "/dev/a", "wipeTable": true,
                    "partitions": [{"number": 1, "label": "x"}, {"label": "y", "sizeMiB": 5}]}]}}),
                json!({"storage": {"disks": [{"device": "/dev/a",
                    "partitions": [{"label": "y", "sizeMiB": 6}, {"number": 1, "label": "z"}]}]}}),
                json!({"storage": {"disks": [{"device": "/dev/a", "wipeTable": true,
                    "partitions": [{"number": 1, "label": "z"}, {"label": "y", "sizeMiB": 6}]}]}}),
            ),
            (
                "an HTTP header without a value removes the parent's",
                json!({"storage": {"files": [{"path": "/a", "contents": {"source": "data:,",
                    "httpHeaders": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}}]}}),
                json!({"storage": {"files": [{"path": "/a", "contents": {
                    "httpHeaders": [{"name": "A"}, {"name": "B", "value": "3"}]}}]}}),
                json!({"storage": {"files": [{"path": "/a", "contents": {"source": "data:,",
                    "httpHeaders": [{"name": "B", "value": "3"}]}}]}}),
            ),
        ]);
    }

    #[test]
    fn each_list_merges_by_its_own_key() {
        type Row = (&'static str, fn(Value) -> Value);
        let rows: [Row; 13] = [
            ("path", |items| json!({"storage": {"files": items}})),
            ("path", |items| json!({"storage": {"directories": items}})),
            ("path", |items| json!({"storage": {"links": items}})),
            ("device", |items| json!({"storage": {"disks": items}})),
            ("device", |items| json!({"storage": {"filesystems": items}})),
            ("name", |items| json!({"storage": {"raid": items}})),
            ("name", |items| json!({"storage": {"luks": items}})),
            ("url", |items| json!({"storage": {"luks": [{"name": "l", "clevis": {"tang": items}}]}})),
            ("name", |items| json!({"systemd": {"units": items}})),
            ("name", |items| json!({"passwd": {"users": items}})),
            ("name", |items| json!({"passwd": {"groups": items}})),
            ("source", |items| json!({"ignition": {"version": "3.5.0", "config": {"merge": items}}})),
            ("source", |items| {
                let security = json!({"tls": {"certificateAuthorities": items}});
                json!({"ignition": {"version": "3.5.0", "security": security}})
            }),
        ];
        for (key, wrapped) in rows {
            let of = |keys: &[&str]| wrapped(keys.iter().map(|value| json!({key: value})).collect());
            let merged = merge(&config(&of(&["1", "2"])), &config(&of(&["3", "2"])));
            assert_eq!(merged, config(&of(&["1", "2", "3"])));
        }
    }

    #[test]
    fn lists_without_keys_are_concatenated() {
        let append = |sources: &[&str]| {
            let fragments: Vec<Value> = sources.iter().map(|source| json!({"source": source})).collect();
            json!({"storage": {"files": [{"path": "/a", "append": fragments}],
                "filesystems": [{"device": "/dev/f", "options": sources, "mountOptions": sources}]}})
        };
        assert_merges(&[(
            "equal fragments are kept",
            append(&["data:,1", "data:,2"]),
            append(&["data:,2", "data:,3"]),
            append(&["data:,1", "data:,2", "data:,2", "data:,3"]),
        )]);
    }

    #[test]
    fn item_in_a_sibling_list_displaces_the_parents() {
        assert_merges(&[
            (
                "a link takes a file's path, a file a directory's",
                json!({"storage": {"files": [{"path": "/a"}, {"path": "/b"}], "directories": [{"path": "/d"}]}}),
                json!({"storage": {"links": [{"path": "/a", "target": "/b"}], "files": [{"path": "/d"}]}}),
                json!({"storage": {"files": [{"path": "/b"}, {"path": "/d"}], "directories": [],
                    "links": [{"path": "/a", "target": "/b"}]}}),
            ),
            (
                "a kernel argument changes sides",
                json!({"kernelArguments": {"shouldExist": ["a", "b"], "shouldNotExist": ["c"]}}),
                json!({"kernelArguments": {"shouldExist": ["c"], "shouldNotExist": ["a"]}}),
                json!({"kernelArguments": {"shouldExist": ["b", "c"], "shouldNotExist": ["a"]}}),
            ),
        ]);
    }
}
