//! Trees: directories of local files, each of which becomes a file or a link of the config.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::local_files::{LocalEntry, LocalNode, ensure_beneath};
use super::translation::{ButaneTranslation, EXPECTED_LIST, EXPECTED_SECTION, data_url};

/// Modes of files in a tree: a directory of a repository has no others.
const MODE: u32 = 0o644;
const EXECUTABLE_MODE: u32 = 0o755;

/// Add the files and links of all trees. A file that the config lists without contents gets those of the tree and keeps its mode
/// and owner.
pub(super) fn expand(document: &mut Value, translation: &mut ButaneTranslation<'_>) {
    let Some(storage) = document.get_mut("storage").and_then(Value::as_object_mut) else { return };
    let Some(trees) = storage.remove("trees") else { return };
    let Value::Array(trees) = trees else { return translation.refuse("storage.trees", EXPECTED_LIST) };
    let mut listing = StorageListing::of(storage);
    for (index, mut tree) in trees.into_iter().enumerate() {
        let field = format!("storage.trees[{index}]");
        let Some(tree) = tree.as_object_mut() else {
            translation.refuse(&field, EXPECTED_SECTION);
            continue;
        };
        let local = translation.take_text(tree, "local", &field).unwrap_or_default();
        let above = translation.take_text(tree, "path", &field).unwrap_or_default();
        let entries = match ensure_beneath(&local).and_then(|()| translation.local.tree(&local)) {
            Ok(entries) => entries,
            Err(error) => {
                translation.refuse(&format!("{field}.local"), error.to_string());
                continue;
            }
        };
        for LocalEntry { path, node } in entries {
            let path = format!("{}/{path}", above.trim_end_matches('/'));
            if let Err(conflict) = listing.add(&path, node) {
                translation.refuse(&field, format!("{path} is in the tree, and {conflict}"));
            }
        }
    }
    listing.give_back(storage);
}

/// Files and links of the config, and where each path is in its list.
struct StorageListing {
    files: Vec<Value>,
    links: Vec<Value>,
    file_places: BTreeMap<String, usize>,
    link_places: BTreeMap<String, usize>,
    directories: BTreeSet<String>,
}

impl StorageListing {
    fn of(storage: &mut Map<String, Value>) -> Self {
        let mut list = |name: &str| match storage.get_mut(name).map(Value::take) {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        };
        let (files, links, directories) = (list("files"), list("links"), list("directories"));
        let places =
            |items: &[Value]| items.iter().enumerate().map(|(index, item)| (path_of(item), index)).collect();
        let listing = Self {
            file_places: places(&files),
            link_places: places(&links),
            directories: directories.iter().map(path_of).collect(),
            files,
            links,
        };
        storage.insert("directories".to_owned(), directories.into());
        listing
    }

    fn add(&mut self, path: &str, node: LocalNode) -> Result<(), &'static str> {
        let (items, places, others) = match node {
            LocalNode::File { .. } => (&mut self.files, &mut self.file_places, &self.link_places),
            LocalNode::Link { .. } => (&mut self.links, &mut self.link_places, &self.file_places),
        };
        if others.contains_key(path) || self.directories.contains(path) {
            return Err("listed as something else");
        }
        let count = items.len();
        let index = *places.entry(path.to_owned()).or_insert(count);
        if index == count {
            items.push(json!({"path": path}));
        }
        let Some(item) = items.get_mut(index).and_then(Value::as_object_mut) else { return Ok(()) };
        match node {
            LocalNode::File { contents, is_executable } => fill(item, &contents, is_executable),
            LocalNode::Link { target } => aim(item, target),
        }
    }

    fn give_back(self, storage: &mut Map<String, Value>) {
        storage.insert("files".to_owned(), self.files.into());
        storage.insert("links".to_owned(), self.links.into());
    }
}

fn path_of(item: &Value) -> String {
    item.get("path").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn fill(file: &mut Map<String, Value>, contents: &[u8], is_executable: bool) -> Result<(), &'static str> {
    if file.contains_key("contents") || file.contains_key("append") {
        return Err("listed with contents of its own");
    }
    file.insert("contents".to_owned(), json!({"source": data_url(contents)}));
    file.entry("mode").or_insert_with(|| if is_executable { EXECUTABLE_MODE } else { MODE }.into());
    Ok(())
}

fn aim(link: &mut Map<String, Value>, target: String) -> Result<(), &'static str> {
    if link.contains_key("target") {
        return Err("listed with a target of its own");
    }
    link.insert("target".to_owned(), target.into());
    Ok(())
}
