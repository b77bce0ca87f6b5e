//! Tree with two configs.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;
use testbed::model::document::{file, with_files};
use testbed::model::run::{Outcome, flameholder};
use testbed::model::tree::Tree;

/// Tree with the left config applied, and the documents of both configs.
pub(super) struct Host {
    pub tree: Tree,
    _documents: TempDir,
    pub left: PathBuf,
    pub right: PathBuf,
}

impl Host {
    pub(super) fn new(left: &Value, right: &Value) -> Self {
        testbed::preconditions::require_root();
        let (tree, documents) = (Tree::new(), tempfile::tempdir().unwrap());
        let written = |name: &str, config: &Value| {
            let path = documents.path().join(name);
            fs::write(&path, config.to_string()).unwrap();
            path
        };
        let (left, right) = (written("left.json", left), written("right.json", right));
        let host = Self { tree, left, right, _documents: documents };
        host.applies(&host.left);
        host
    }

    /// Tree whose configs create, change and remove files.
    pub(super) fn small() -> Self {
        let left =
            [file("/etc/both", "left"), file("/etc/left/only", "left"), file("/etc/admin.conf", "left")];
        let right = [file("/etc/both", "right"), file("/etc/right/only", "right")];
        Self::new(&with_files("rendered-left", &left), &with_files("rendered-right", &right))
    }

    pub(super) fn line<'a>(&'a self, verb: &'a str, desired: Option<&'a Path>) -> Vec<&'a str> {
        let mut line = vec![verb, "--root", self.tree.root().to_str().unwrap()];
        line.extend(desired.into_iter().flat_map(|path| ["--desired", path.to_str().unwrap()]));
        line
    }

    pub(super) fn applies(&self, desired: &Path) {
        let outcome = flameholder(self.line("apply", Some(desired)));
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }

    pub(super) fn runs(&self, verb: &str, desired: Option<&Path>) -> Outcome {
        flameholder(self.line(verb, desired))
    }

    pub(super) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.tree.at(path)).unwrap_or_default()
    }
}
