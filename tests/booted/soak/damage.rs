//! Damage to one state file.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testbed::booted::host::Host;

use super::planted::Plant;
use super::step::{DamageKind, StateFile};

/// Name that only documents of a newer release use: no command of this one may believe it.
pub(super) const DECOY: &str = "rendered-decoy";
/// Schema that neither release knows.
const UNKNOWN_SCHEMA: u32 = 9;

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
