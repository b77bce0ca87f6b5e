//! A tree that a good config was applied to, and from which a bad attempt must take nothing away.

use std::{fs, path::Path};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    document::{file, with_files},
    run::{Outcome, flameholder},
    snapshot::{self, Snapshot},
    tree::Tree,
};

/// The tree, how it looks, and a folder for documents beside it.
pub struct Settled {
    pub tree: Tree,
    pub before: Snapshot,
    pub documents: TempDir,
}

impl Settled {
    /// A fresh tree with two files and a unit applied.
    pub fn new() -> Self {
        let (tree, documents) = (Tree::new(), tempfile::tempdir().expect("a temporary directory"));
        let good = documents.path().join("good.json");
        fs::write(&good, good_config().to_string()).expect("a config");
        let outcome = apply(tree.root(), &good);
        assert_eq!(outcome.code, Some(0), "a good config must apply: {outcome:?}");
        let before = snapshot::take(tree.root());
        Self { tree, before, documents }
    }

    /// Complains where the tree is not the very same as before, or where its record no longer holds.
    pub fn disturbed(&self) -> Vec<String> {
        let mut complaints = snapshot::disturbed(&self.before, &snapshot::take(self.tree.root()));
        let outcome = flameholder(["verify".as_ref(), "--root".as_ref(), self.tree.root().as_os_str()]);
        if outcome.code != Some(0) {
            complaints.push(format!("verify finds what was applied before changed: {outcome:?}"));
        }
        complaints
    }
}

/// Applies the config at `desired` to the tree at `root`.
pub fn apply(root: &Path, desired: &Path) -> Outcome {
    flameholder([
        "apply".as_ref(),
        "--root".as_ref(),
        root.as_os_str(),
        "--desired".as_ref(),
        desired.as_os_str(),
    ])
}

/// Complains where an attempt did not end with `code` and an error that names everything in `mentions`;
/// alternatives are separated by `|`.
pub fn unlike(outcome: &Outcome, code: i32, mentions: &[&str]) -> Vec<String> {
    let mut complaints = Vec::new();
    if outcome.code != Some(code) {
        complaints.push(format!("exits with {:?}, not {code}: {}", outcome.code, outcome.stderr));
    }
    for mention in mentions {
        if !mention.split('|').any(|name| outcome.stderr.contains(name)) {
            complaints.push(format!("does not name {mention}: {}", outcome.stderr));
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
