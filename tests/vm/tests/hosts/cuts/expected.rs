//! What a generation looks like on a disk, from its configuration alone: no code of the agent takes part.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use vm::writelog::{BootEntry, Tree};

use vm::config::{Config, text_of};

/// A file that a configuration wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    pub contents: String,
    pub mode: u32,
}

/// What enables units are links in such folders.
const WANTS: &str = ".target.wants/";

impl File {
    /// A link to a unit, wherever that lies.
    fn link(target: &str) -> Self {
        let name = target.rsplit('/').next().unwrap_or_default();
        Self { contents: format!("a link to {name}"), mode: 0 }
    }
}

/// A whole generation.
#[derive(Debug, Clone)]
pub struct Expected {
    /// Name of its configuration.
    pub config: String,
    /// Version of its OS.
    pub version: u32,
    arguments: Vec<String>,
    files: BTreeMap<String, File>,
}

impl Expected {
    pub fn new(config: &Config, version: u32) -> Self {
        let document: Value = serde_json::from_str(&config.render()).unwrap();
        let spec = &document["spec"];
        let mut files = BTreeMap::new();
        for file in spec["config"]["storage"]["files"].as_array().unwrap() {
            let contents = text_of(file["contents"]["source"].as_str().unwrap());
            let mode = u32::try_from(file["mode"].as_u64().unwrap()).unwrap();
            files.insert(file["path"].as_str().unwrap().to_owned(), File { contents, mode });
        }
        for unit in spec["config"]["systemd"]["units"].as_array().unwrap() {
            let name = unit["name"].as_str().unwrap();
            let contents = unit["contents"].as_str().unwrap().to_owned();
            files.insert(format!("/etc/systemd/system/multi-user{WANTS}{name}"), File::link(name));
            files.insert(format!("/etc/systemd/system/{name}"), File { contents, mode: 0o644 });
        }
        let arguments = spec["kernelArguments"].as_array().unwrap();
        let arguments = arguments.iter().map(|argument| argument.as_str().unwrap().to_owned()).collect();
        Self { config: document["metadata"]["name"].as_str().unwrap().to_owned(), version, arguments, files }
    }

    /// How its files below `/etc`, or those elsewhere, differ from this tree; `other` has what else may have been there.
    pub fn differences(&self, other: &Self, tree: &Tree, in_etc: bool) -> Vec<String> {
        let mut found = Vec::new();
        for path in self.paths_of_both(other) {
            let Some(place) = path_on_disk(path, in_etc) else { continue };
            let (expected, found_file) = (self.files.get(path), read_file(tree, &place));
            if found_file.as_ref() != Ok(&expected.cloned()) {
                found.push(format!("{path} is {}", describe(&found_file)));
            }
        }
        found
    }

    /// Those of its files outside `/etc` that are neither its own nor the other's.
    pub fn unexpected_files(&self, other: &Self, var: &Tree) -> Vec<String> {
        let mut found = Vec::new();
        for path in self.paths_of_both(other) {
            let Some(place) = path_on_disk(path, false) else { continue };
            let seen = read_file(var, &place);
            let is_known = |of: &Self| seen.as_ref() == Ok(&of.files.get(path).cloned());
            if !is_known(self) && !is_known(other) {
                found.push(format!("{path} is {}", describe(&seen)));
            }
        }
        found
    }

    fn paths_of_both<'a>(&'a self, other: &'a Self) -> BTreeSet<&'a String> {
        self.files.keys().chain(other.files.keys()).collect()
    }

    /// How its kernel arguments differ from those of a boot entry.
    pub fn argument_differences(&self, other: &Self, entry: &BootEntry) -> Vec<String> {
        let mut found = Vec::new();
        for argument in self.arguments.iter().chain(&other.arguments) {
            let count = |of: &[String]| of.iter().filter(|found| *found == argument).count();
            if count(&self.arguments) != count(&entry.arguments) {
                found.push(format!("{argument} is there {} times", count(&entry.arguments)));
            }
        }
        found
    }
}

/// Where a path of a configuration lies: in the deployment, or in `/var`.
fn path_on_disk(path: &str, in_etc: bool) -> Option<String> {
    match (in_etc, path.strip_prefix("/etc/"), path.strip_prefix("/usr/local/"), path.strip_prefix("/var/")) {
        (true, Some(below), ..) => Some(format!("etc/{below}")),
        (false, _, Some(below), _) => Some(format!("usrlocal/{below}")),
        (false, _, _, Some(below)) => Some(below.to_owned()),
        _ => None,
    }
}

/// Nothing where nothing is there.
fn read_file(tree: &Tree, place: &str) -> Result<Option<File>, String> {
    if place.contains(WANTS) {
        return Ok(tree.link(place).ok().map(|target| File::link(&target)));
    }
    let read = || -> anyhow::Result<_> {
        let Some(mode) = tree.mode(place)? else { return Ok(None) };
        let contents = String::from_utf8_lossy(&tree.read(place)?).into_owned();
        Ok(Some(File { contents, mode: mode & 0o7777 }))
    };
    read().map_err(|error| format!("{error:#}"))
}

fn describe(seen: &Result<Option<File>, String>) -> String {
    match seen {
        Ok(None) => "absent".to_owned(),
        Ok(Some(File { contents, mode })) => {
            format!("{:?} of mode {mode:o}", contents.chars().take(30).collect::<String>())
        }
        Err(error) => error.clone(),
    }
}
