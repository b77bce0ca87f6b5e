//! Documents that no command may accept.

use std::fs;

use super::{
    run::flameholder,
    settled::{Settled, apply, unlike},
};

/// The exit code of a command whose input is malformed.
pub const MALFORMED: i32 = 78;

/// A name for the case, the document, and what the error must name.
pub type Case = (&'static str, Vec<u8>, &'static [&'static str]);

/// Applies and plans each document on one tree; each must be refused as malformed and leave the tree alone.
pub fn all_refused(cases: Vec<Case>) {
    crate::preconditions::require_root();
    let mut host = Settled::new();
    let mut complaints = Vec::new();
    for (name, document, mentions) in cases {
        let path = host.documents.path().join("desired.json");
        fs::write(&path, document).expect("a document");
        let root = host.tree.root().as_os_str();
        let applied = apply(host.tree.root(), &path);
        let planned = ["plan".as_ref(), "--root".as_ref(), root, "--desired".as_ref(), path.as_os_str()];
        for (verb, outcome) in [("apply", applied), ("plan", flameholder(planned))] {
            let mut wrong = unlike(&outcome, MALFORMED, mentions);
            if !outcome.stdout.is_empty() {
                wrong.push(format!("prints {}", outcome.stdout));
            }
            complaints.extend(wrong.iter().map(|wrong| format!("{name}: {verb} {wrong}")));
        }
        let disturbed = host.disturbed();
        if let Some(first) = disturbed.first() {
            complaints.push(format!("{name}: changes {} paths, such as {first}", disturbed.len()));
            host = Settled::new();
        }
    }
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}
