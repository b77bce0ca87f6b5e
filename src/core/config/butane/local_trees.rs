//! Trees: directories of local files, each of which becomes a file or a link of the config, and a directory where the tree has
//! attributes for it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::local_files::{LocalEntry, LocalNode, ensure_beneath};
use super::translation::{ButaneTranslation, EXPECTED_LIST, EXPECTED_SECTION, data_url};

/// Modes of files in a tree: a directory of a repository has no others.
const MODE: u32 = 0o644;
const EXECUTABLE_MODE: u32 = 0o755;
/// Mode of directories where the tree names an owner alone.
const DIRECTORY_MODE: u32 = 0o755;

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
        let attributes = TreeAttributes::of(tree);
        let top = LocalEntry { path: String::new(), node: LocalNode::Directory };
        for LocalEntry { path, node } in std::iter::once(top).chain(entries) {
            let path = format!("{}/{path}", above.trim_end_matches('/'));
            let path = if path.len() > 1 { path.trim_end_matches('/') } else { &path };
            if let Err(conflict) = listing.add(path, node, &attributes) {
                translation.refuse(&field, format!("{path} is in the tree, and {conflict}"));
            }
        }
    }
    listing.give_back(storage);
}

/// Attributes that a tree gives to its content.
struct TreeAttributes {
    /// Members `user` and `group`.
    owner: Map<String, Value>,
    file_mode: Option<Value>,
    dir_mode: Option<Value>,
}

impl TreeAttributes {
    fn of(tree: &mut Map<String, Value>) -> Self {
        let owner = ["user", "group"].into_iter().filter_map(|key| Some((key.to_owned(), tree.remove(key)?)));
        Self {
            owner: owner.filter(|(_, who)| *who != json!({})).collect(),
            file_mode: tree.remove("file_mode"),
            dir_mode: tree.remove("dir_mode"),
        }
    }

    /// Return a new entry for the path.
    fn node(&self, path: &str) -> Map<String, Value> {
        let mut node = self.owner.clone();
        node.insert("path".to_owned(), path.into());
        node
    }
}

/// Files and links of the config, and where each path is in its list.
struct StorageListing {
    files: Vec<Value>,
    links: Vec<Value>,
    directories: Vec<Value>,
    file_places: BTreeMap<String, usize>,
    link_places: BTreeMap<String, usize>,
    directory_paths: BTreeSet<String>,
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
        Self {
            file_places: places(&files),
            link_places: places(&links),
            directory_paths: directories.iter().map(path_of).collect(),
            files,
            links,
            directories,
        }
    }

    /// Add a directory, where the tree says more of directories than that they exist.
    fn add_directory(&mut self, path: &str, attributes: &TreeAttributes) -> Result<(), &'static str> {
        if attributes.dir_mode.is_none() && attributes.owner.is_empty() {
            return Ok(());
        }
        let is_listed = self.file_places.contains_key(path) || self.link_places.contains_key(path);
        if is_listed || !self.directory_paths.insert(path.to_owned()) {
            return Err("listed on its own");
        }
        let mode = attributes.dir_mode.clone().unwrap_or_else(|| DIRECTORY_MODE.into());
        let mut directory = attributes.node(path);
        directory.insert("mode".to_owned(), mode);
        self.directories.push(directory.into());
        Ok(())
    }

    fn add(&mut self, path: &str, node: LocalNode, attributes: &TreeAttributes) -> Result<(), &'static str> {
        let (items, places, others) = match node {
            LocalNode::Directory => return self.add_directory(path, attributes),
            LocalNode::File { .. } => (&mut self.files, &mut self.file_places, &self.link_places),
            LocalNode::Link { .. } => (&mut self.links, &mut self.link_places, &self.file_places),
        };
        if others.contains_key(path) || self.directory_paths.contains(path) {
            return Err("listed as something else");
        }
        let count = items.len();
        let index = *places.entry(path.to_owned()).or_insert(count);
        if index == count {
            items.push(attributes.node(path).into());
        }
        let Some(item) = items.get_mut(index).and_then(Value::as_object_mut) else { return Ok(()) };
        match node {
            LocalNode::Directory => Ok(()),
            LocalNode::File { contents, is_executable } => {
                let usual = if is_executable { EXECUTABLE_MODE } else { MODE };
                fill(item, &contents, attributes.file_mode.clone().unwrap_or_else(|| usual.into()))
            }
            LocalNode::Link { target } => aim(item, target),
        }
    }

    fn give_back(self, storage: &mut Map<String, Value>) {
        storage.insert("files".to_owned(), self.files.into());
        storage.insert("links".to_owned(), self.links.into());
        storage.insert("directories".to_owned(), self.directories.into());
    }
}

fn path_of(item: &Value) -> String {
    item.get("path").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn fill(file: &mut Map<String, Value>, contents: &[u8], mode: Value) -> Result<(), &'static str> {
    if file.contains_key("contents") || file.contains_key("append") {
        return Err("listed with contents of its own");
    }
    file.insert("contents".to_owned(), json!({"source": data_url(contents)}));
    file.entry("mode").or_insert(mode);
    Ok(())
}

fn aim(link: &mut Map<String, Value>, target: String) -> Result<(), &'static str> {
    if link.contains_key("target") {
        return Err("listed with a target of its own");
    }
    link.insert("target".to_owned(), target.into());
    Ok(())
}
