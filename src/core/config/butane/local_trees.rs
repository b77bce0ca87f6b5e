//! Trees: directories of local files, each of which becomes a file or a link of the config.

use std::collections::{BTreeMap, BTreeSet};

use super::fields::{FileFields, LinkFields, ResourceFields, StorageSection, TreeFields};
use super::local_files::{LocalEntry, LocalNode, ensure_beneath};
use super::translation::{ButaneTranslation, data_url};

/// Modes of files in a tree: a directory of a repository has no others.
const MODE: i64 = 0o644;
const EXECUTABLE_MODE: i64 = 0o755;

/// Add the files and links of all trees. A file that the config lists without contents gets those of the tree and keeps its mode
/// and owner.
pub(super) fn expand(storage: &mut StorageSection, translation: &mut ButaneTranslation<'_>) {
    let trees = std::mem::take(&mut storage.trees);
    let mut listing = StorageListing::of(storage);
    for (index, tree) in trees.into_iter().enumerate() {
        let field = format!("storage.trees[{index}]");
        let listed = ensure_beneath(&tree.local).and_then(|()| translation.local.tree(&tree.local));
        let entries = match listed {
            Ok(entries) => entries,
            Err(error) => {
                translation.refuse(&format!("{field}.local"), error.to_string());
                continue;
            }
        };
        for entry in entries {
            let path = place(&tree, &entry);
            if let Err(conflict) = listing.add(storage, &path, entry.node) {
                translation.refuse(&field, format!("{path} is in the tree, and {conflict}"));
            }
        }
    }
}

fn place(tree: &TreeFields, entry: &LocalEntry) -> String {
    let above = tree.path.as_deref().unwrap_or("/").trim_end_matches('/');
    format!("{above}/{}", entry.path)
}

/// Indices of the entries by their paths.
struct StorageListing {
    files: BTreeMap<String, usize>,
    links: BTreeMap<String, usize>,
    directories: BTreeSet<String>,
}

impl StorageListing {
    fn of(storage: &StorageSection) -> Self {
        let files = storage.files.iter().enumerate().map(|(index, file)| (file.path.clone(), index));
        let links = storage.links.iter().enumerate().map(|(index, link)| (link.path.clone(), index));
        Self {
            files: files.collect(),
            links: links.collect(),
            directories: storage.directories.iter().map(|directory| directory.path.clone()).collect(),
        }
    }

    fn add(&mut self, storage: &mut StorageSection, path: &str, node: LocalNode) -> Result<(), &'static str> {
        let others = match node {
            LocalNode::File { .. } => &self.links,
            LocalNode::Link { .. } => &self.files,
        };
        if others.contains_key(path) || self.directories.contains(path) {
            return Err("listed as something else");
        }
        match node {
            LocalNode::File { contents, is_executable } => {
                let count = storage.files.len();
                let index = *self.files.entry(path.to_owned()).or_insert(count);
                if index == count {
                    storage.files.push(FileFields { path: path.to_owned(), ..FileFields::default() });
                }
                storage.files.get_mut(index).map_or(Ok(()), |file| fill(file, &contents, is_executable))
            }
            LocalNode::Link { target } => {
                let count = storage.links.len();
                let index = *self.links.entry(path.to_owned()).or_insert(count);
                if index == count {
                    storage.links.push(LinkFields { path: path.to_owned(), ..LinkFields::default() });
                }
                storage.links.get_mut(index).map_or(Ok(()), |link| aim(link, target))
            }
        }
    }
}

fn fill(file: &mut FileFields, contents: &[u8], is_executable: bool) -> Result<(), &'static str> {
    if file.contents.is_some() || !file.append.is_empty() {
        return Err("listed with contents of its own");
    }
    file.contents = Some(ResourceFields { source: Some(data_url(contents)), ..ResourceFields::default() });
    file.mode.get_or_insert(if is_executable { EXECUTABLE_MODE } else { MODE });
    Ok(())
}

fn aim(link: &mut LinkFields, target: String) -> Result<(), &'static str> {
    if link.target.is_some() {
        return Err("listed with a target of its own");
    }
    link.target = Some(target);
    Ok(())
}
