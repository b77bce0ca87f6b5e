//! Documents that every command must refuse.

use std::fs;

use super::applied_tree::{AppliedTree, apply, outcome_complaints};
use super::run::flameholder;

/// Exit code of a command whose input is malformed.
pub const MALFORMED: i32 = 78;

/// Name of the case, the document, and the texts that the error must contain.
pub type Case = (&'static str, Vec<u8>, &'static [&'static str]);

/// Apply and plan each document on one tree; each must be refused as malformed and leave the tree unchanged.
pub fn assert_all_refused(cases: Vec<Case>) {
    crate::preconditions::require_root();
    let mut host = AppliedTree::new();
    let mut complaints = Vec::new();
    for (name, document, mentions) in cases {
        let path = host.documents.path().join("desired.json");
        fs::write(&path, document).expect("a document");
        let root = host.tree.root().as_os_str();
        let applied = apply(host.tree.root(), &path);
        let planned = ["plan".as_ref(), "--root".as_ref(), root, "--desired".as_ref(), path.as_os_str()];
        for (verb, outcome) in [("apply", applied), ("plan", flameholder(planned))] {
            let mut wrong = outcome_complaints(&outcome, MALFORMED, mentions);
            if !outcome.stdout.is_empty() {
                wrong.push(format!("prints {}", outcome.stdout));
            }
            complaints.extend(wrong.iter().map(|wrong| format!("{name}: {verb} {wrong}")));
        }
        let changed = host.unexpected_changes();
        if let Some(first) = changed.first() {
            complaints.push(format!("{name}: changes {} paths, such as {first}", changed.len()));
            host = AppliedTree::new();
        }
    }
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}
