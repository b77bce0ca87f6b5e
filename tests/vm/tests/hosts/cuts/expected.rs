//! Expected state of a generation on a disk, derived from its config without code of the agent.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use vm::config::{Config, text_of};
use vm::writelog::{BootEntry, Tree};

/// A file of a config, or a symbolic link to a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    pub contents: String,
    pub mode: u32,
}

/// Part of the path of a link that enables a unit.
const WANTS: &str = ".target.wants/";

impl File {
    /// Return the expectation of a link to the unit `target`, in any directory.
    fn link(target: &str) -> Self {
        let name = target.rsplit('/').next().unwrap_or_default();
        Self { contents: format!("a link to {name}"), mode: 0 }
    }
}

/// Expected state of a generation.
#[derive(Debug, Clone)]
pub struct Expected {
    /// Name of the config.
    pub config: String,
    /// Version of the OS.
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

    /// Compare the files of both generations below `/etc`, or those elsewhere, with the tree, and return the
    /// differences from this one. `other` names the files that have to be absent here.
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

    /// Return the files outside `/etc` that match neither generation.
    pub fn unexpected_files(&self, other: &Self, var: &Tree) -> Vec<String> {
        let mut found = Vec::new();
        for path in self.paths_of_both(other) {
            let Some(place) = path_on_disk(path, false) else { continue };
            let found_file = read_file(var, &place);
            let is_known = |of: &Self| found_file.as_ref() == Ok(&of.files.get(path).cloned());
            if !is_known(self) && !is_known(other) {
                found.push(format!("{path} is {}", describe(&found_file)));
            }
        }
        found
    }

    fn paths_of_both<'a>(&'a self, other: &'a Self) -> BTreeSet<&'a String> {
        self.files.keys().chain(other.files.keys()).collect()
    }

    /// Return the differences between the kernel arguments and those of a boot entry.
    pub fn argument_differences(&self, other: &Self, entry: &BootEntry) -> Vec<String> {
        let mut found = Vec::new();
        for argument in self.arguments.iter().chain(&other.arguments) {
            let count = |of: &[String]| of.iter().filter(|found| *found == argument).count();
            if count(&self.arguments) != count(&entry.arguments) {
                found.push(format!("{argument} is given {} times", count(&entry.arguments)));
            }
        }
        found
    }
}

/// Map a path of a config to its path in the deployment (`/etc`) or in `/var`. Returns `None` for a path of
/// the other part.
fn path_on_disk(path: &str, in_etc: bool) -> Option<String> {
    match (in_etc, path.strip_prefix("/etc/"), path.strip_prefix("/usr/local/"), path.strip_prefix("/var/")) {
        (true, Some(below), ..) => Some(format!("etc/{below}")),
        (false, _, Some(below), _) => Some(format!("usrlocal/{below}")),
        (false, _, _, Some(below)) => Some(below.to_owned()),
        _ => None,
    }
}

/// Read a file, or a link that enables a unit. Returns `None` if it is absent.
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

fn describe(file: &Result<Option<File>, String>) -> String {
    match file {
        Ok(None) => "absent".to_owned(),
        Ok(Some(File { contents, mode })) => {
            format!("{:?} of mode {mode:o}", contents.chars().take(30).collect::<String>())
        }
        Err(error) => error.clone(),
    }
}
