//! Inputs of the corpora, each with the check of its parser.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use inputs::CHECKS;

fn corpora() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

#[test]
fn every_input_of_the_corpora_keeps_the_promises_of_its_parser() {
    let mut broken = Vec::new();
    for check in CHECKS {
        let files = fs::read_dir(corpora().join(check.name)).unwrap();
        let files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
        assert!(files.len() >= 3, "{} has {} inputs", check.name, files.len());
        for file in files {
            let input = fs::read(&file).unwrap();
            if catch_unwind(|| (check.check)(&input)).is_err() {
                broken.push(file);
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn every_corpus_and_fuzz_target_has_its_check() {
    let known: BTreeSet<String> = CHECKS.iter().map(|check| check.name.to_owned()).collect();
    let names = |directory: &Path| -> BTreeSet<String> {
        let entries = fs::read_dir(directory).unwrap();
        entries
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect()
    };
    assert_eq!(names(&corpora()), known);
    assert_eq!(names(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/targets")), known);
}
