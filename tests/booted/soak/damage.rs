//! Damage to one state file, and the deployments that have it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testbed::booted::host::Host;

use super::planted::Plant;
use super::step::{CONFIG, DamageKind, MARK, RECORD, StateFile};

/// Name that only documents of a newer release use: no command of this one may believe it.
pub(super) const DECOY: &str = "rendered-decoy";
/// Schema that neither release knows.
const UNKNOWN_SCHEMA: u32 = 9;

/// Deployments with damage in their `/etc`.
#[derive(Debug, Default)]
pub(super) struct DamagedDeployments {
    /// Without the record of their generation, as it was written.
    pub(super) records: BTreeSet<PathBuf>,
    /// Without the applied config.
    pub(super) configs: BTreeSet<PathBuf>,
    /// Without the mark of an unconfirmed generation.
    pub(super) marks: BTreeSet<PathBuf>,
}

impl DamagedDeployments {
    /// Note damage to the file in the deployment.
    pub(super) fn note(&mut self, root: PathBuf, file: StateFile) {
        let _: bool = match file {
            RECORD => self.records.insert(root),
            CONFIG => self.configs.insert(root),
            MARK => self.marks.insert(root),
            _ => false,
        };
    }

    /// Note that the `/etc` of the deployment `root` was merged from that of `base`. Its mark is its own.
    pub(super) fn inherit(&mut self, root: &Path, base: &Path) {
        self.repair(root);
        self.marks.remove(root);
        for damaged in [&mut self.records, &mut self.configs] {
            if damaged.contains(base) {
                damaged.insert(root.to_owned());
            }
        }
    }

    /// Note that the deployment has its record and its config: its generation is confirmed.
    pub(super) fn repair(&mut self, root: &Path) {
        self.records.remove(root);
        self.configs.remove(root);
    }

    /// Forget deployments that are gone: serial numbers recur.
    pub(super) fn forget_removed(&mut self) {
        for damaged in [&mut self.records, &mut self.configs, &mut self.marks] {
            damaged.retain(|root| root.exists());
        }
    }
}

/// Damage the file, and return true if it exists.
pub(super) fn damage(host: &Host, file: StateFile, kind: DamageKind, plant: Option<Plant>) -> bool {
    let path = match file {
        StateFile::Var(name) => host.var("lib/flameholder").join(name),
        StateFile::Etc(name) => host.etc(name),
        StateFile::Run(name) => host.path("run").join(name),
    };
    if path.symlink_metadata().is_err() {
        return false;
    }
    if kind == DamageKind::Remove {
        if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }.unwrap();
        return true;
    }
    for file in files(&path) {
        let bytes = fs::read(&file).unwrap();
        if let Some(damaged) = damaged(&bytes, kind, plant) {
            fs::write(&file, damaged).unwrap();
        }
    }
    true
}

/// The file, or those in the directory.
fn files(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_file()).collect()
}

fn damaged(bytes: &[u8], kind: DamageKind, plant: Option<Plant>) -> Option<Vec<u8>> {
    let middle = bytes.len() / 2;
    Some(match kind {
        DamageKind::Remove => return None,
        DamageKind::Empty => Vec::new(),
        DamageKind::Truncate => bytes.get(..middle)?.to_vec(),
        DamageKind::Flip => {
            let mut flipped = bytes.to_vec();
            *flipped.get_mut(middle)? ^= 1;
            flipped
        }
        DamageKind::Newer => newer(bytes, plant)?,
    })
}

/// The same document as a newer release could have written it.
fn newer(bytes: &[u8], plant: Option<Plant>) -> Option<Vec<u8>> {
    let mut document: Value = serde_json::from_slice(bytes).ok()?;
    let known = document.get("schema")?.clone();
    // An agent that accepts any schema would read this document like one of its own.
    document["schema"] = if plant == Some(Plant::AnySchema) { known } else { json!(UNKNOWN_SCHEMA) };
    if document.get("config").is_some() {
        document["config"] = json!(DECOY);
    }
    Some(format!("{document}\n").into_bytes())
}
