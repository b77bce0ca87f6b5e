//! Tree with an applied config, which a failed attempt must not change.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::document::{file, with_files};
use super::run::{Outcome, flameholder};
use super::snapshot::{self, Snapshot};
use super::tree::Tree;

/// Tree, its snapshot, and a folder for documents beside it.
pub struct AppliedTree {
    pub tree: Tree,
    pub before: Snapshot,
    pub documents: TempDir,
}

impl AppliedTree {
    /// Create a tree and apply two files and a unit.
    pub fn new() -> Self {
        let (tree, documents) = (Tree::new(), tempfile::tempdir().expect("a temporary directory"));
        let good = documents.path().join("good.json");
        fs::write(&good, good_config().to_string()).expect("a config");
        let outcome = apply(tree.root(), &good);
        assert_eq!(outcome.code, Some(0), "the good config is applied: {outcome:?}");
        let before = snapshot::take(tree.root());
        Self { tree, before, documents }
    }

    /// Complaints if the tree differs from the snapshot, or if `verify` finds drift.
    pub fn unexpected_changes(&self) -> Vec<String> {
        let mut complaints = snapshot::changes(&self.before, &snapshot::take(self.tree.root()));
        let outcome = flameholder(["verify".as_ref(), "--root".as_ref(), self.tree.root().as_os_str()]);
        if outcome.code != Some(0) {
            complaints.push(format!("verify finds drift from the applied config: {outcome:?}"));
        }
        complaints
    }
}

/// Apply the config at `desired` to the tree at `root`.
pub fn apply(root: &Path, desired: &Path) -> Outcome {
    flameholder([
        "apply".as_ref(),
        "--root".as_ref(),
        root.as_os_str(),
        "--desired".as_ref(),
        desired.as_os_str(),
    ])
}

/// Complaints if an attempt did not end with `code` and an error that contains each text of `mentions`;
/// alternatives are separated by `|`.
pub fn outcome_complaints(outcome: &Outcome, code: i32, mentions: &[&str]) -> Vec<String> {
    let mut complaints = Vec::new();
    if outcome.code != Some(code) {
        complaints.push(format!("exits with {:?}, expected {code}: {}", outcome.code, outcome.stderr));
    }
    for mention in mentions {
        if !mention.split('|').any(|name| outcome.stderr.contains(name)) {
            complaints.push(format!("does not mention {mention}: {}", outcome.stderr));
        }
    }
    complaints
}

fn good_config() -> Value {
    let unit = json!({"name": "good.service", "enabled": true,
        "contents": "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"});
    let files = [file("/etc/managed.conf", "managed\n"), file("/etc/admin.conf", "managed too\n")];
    let mut good = with_files("rendered-good", &files);
    let core = json!({"name": "core", "sshAuthorizedKeys": ["ssh-rsa AAAAgood"]});
    good["spec"]["config"]["passwd"] = json!({"users": [core]});
    good["spec"]["config"]["systemd"] = json!({"units": [unit]});
    good
}
