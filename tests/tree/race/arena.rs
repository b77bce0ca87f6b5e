//! Tree with a directory that another process swaps for a link, and a tree outside that must not change.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::model::document::{file, with_files};
use testbed::model::run::{Outcome, flameholder};
use testbed::model::snapshot::{self, Snapshot};
use testbed::model::tree::{CORE, Tree};
use testbed::model::verdict::{self, Nodes};

/// Directory and link that are swapped, and the owner of the directory above.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    /// Directory in the tree with files of the config.
    pub directory: &'static str,
    /// Target of the link; the tree outside if this is empty.
    pub link: &'static str,
    /// User who can swap them: owner and mode of the directory above.
    pub holder: (u32, u32),
}

pub(super) const CASES: [Case; 4] = [
    Case { directory: "/etc/foo", link: "", holder: (0, 0o755) },
    Case { directory: "/var/home/core/app", link: "../../../etc", holder: (CORE, 0o700) },
    Case { directory: "/var/home/core/app", link: "", holder: (CORE, 0o700) },
    Case { directory: "/var/tmp/sub", link: "../../etc", holder: (0, 0o1777) },
];

/// The config lists the directory of the keys: a link in its place is replaced.
pub(super) const KEYS: Case =
    Case { directory: "/var/home/core/.ssh", link: "../../../etc", holder: (CORE, 0o700) };

/// Tree that had both configs applied and now has the left one.
pub(super) struct Arena {
    pub case: Case,
    pub tree: Tree,
    outside: TempDir,
    untouched: Snapshot,
    documents: TempDir,
    /// Expected tree of each side.
    sides: [Nodes; 2],
}

impl Arena {
    pub(super) fn new(case: Case) -> Self {
        testbed::preconditions::require_root();
        let (tree, outside) = (Tree::new(), tempfile::tempdir().unwrap());
        fs::create_dir(outside.path().join("authorized_keys.d")).unwrap();
        for name in ["file", "only", "precious", "authorized_keys.d/ignition"] {
            fs::write(outside.path().join(name), "foreign\n").unwrap();
        }
        let (uid, mode) = case.holder;
        tree.directory(case.directory);
        tree.file(&format!("{}/precious", case.directory), 0o600, (uid, uid), b"not managed\n");
        let holder = tree.at(case.directory).parent().unwrap().to_owned();
        for owned in [&holder, &tree.at(case.directory)] {
            chown(owned, Some(uid), Some(uid)).unwrap();
        }
        fs::set_permissions(&holder, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        let link = if case.link.is_empty() { outside.path() } else { Path::new(case.link) };
        symlink(link, tree.at(&format!("{}.other", case.directory))).unwrap();
        let untouched = snapshot::take(outside.path());
        let documents = tempfile::tempdir().unwrap();
        let mut arena = Self { case, tree, outside, untouched, documents, sides: Default::default() };
        for (name, config) in [("0", arena.config("left")), ("1", arena.config("right"))] {
            fs::write(arena.documents.path().join(name), config.to_string()).unwrap();
        }
        for side in [0, 1, 0, 1, 0] {
            let outcome = arena.applies(side);
            assert_eq!(outcome.code, Some(0), "{outcome:?}");
            arena.sides[side] = verdict::nodes(arena.tree.root());
        }
        arena
    }

    fn config(&self, side: &str) -> Value {
        let directory = self.case.directory;
        let files = [
            file("/etc/before.conf", side),
            file(&format!("{directory}/file"), side),
            file(&format!("{directory}/{side}"), side),
            file(&format!("{directory}/{side}.d/deep"), side),
            file("/etc/zz.conf", side),
        ];
        let mut config = with_files(&format!("rendered-{side}"), &files);
        let key = format!("ssh-rsa AAAA{side}");
        config["spec"]["config"]["passwd"] = json!({"users": [{"name": "core", "sshAuthorizedKeys": [key]}]});
        config
    }

    fn desired(&self, side: usize) -> PathBuf {
        self.documents.path().join(side.to_string())
    }

    /// Arguments of `flameholder` that apply this side.
    pub(super) fn applying(&self, side: usize) -> Vec<String> {
        let (root, desired) = (self.tree.root().to_str().unwrap(), self.desired(side));
        ["apply", "--root", root, "--desired", desired.to_str().unwrap()].map(str::to_owned).to_vec()
    }

    pub(super) fn applies(&self, side: usize) -> Outcome {
        flameholder(self.applying(side))
    }

    pub(super) fn runs(&self, verb: &str) -> Outcome {
        flameholder([verb, "--root", self.tree.root().to_str().unwrap()])
    }

    /// Swap the directory and the link beside it.
    pub(super) fn swap(&self) {
        self.exchange(self.case.directory, &format!("{}.other", self.case.directory)).unwrap();
    }

    /// Exchange two paths.
    pub(super) fn exchange(&self, a: &str, b: &str) -> Result<(), Errno> {
        renameat_with(CWD, self.tree.at(a), CWD, self.tree.at(b), RenameFlags::EXCHANGE)
    }

    /// Panics unless an apply succeeds or names the path that stopped it; the tree outside must be unchanged.
    pub(super) fn assert_sound(&self, outcome: &Outcome, what: &str) {
        let disturbed = snapshot::changes(&self.untouched, &snapshot::take(self.outside.path()));
        assert_eq!(disturbed, [""; 0], "{what}: {outcome:?}");
        let named = outcome.stderr.contains(self.case.directory);
        assert!(outcome.code == Some(0) || outcome.code == Some(1) && named, "{what}: {outcome:?}");
    }

    /// Recover the tree, whose directory must be in place; panics unless it is then wholly `side`.
    pub(super) fn assert_recovers_to(&self, side: usize, what: &str) {
        let recovered = self.runs("recover");
        assert_eq!(recovered.code, Some(0), "{what}: {recovered:?}");
        let (is, wanted) = (verdict::nodes(self.tree.root()), &self.sides[side]);
        let paths = is.keys().chain(wanted.keys()).filter(|path| is.get(*path) != wanted.get(*path));
        let differ: Vec<_> = paths.map(|path| (path, is.get(path), wanted.get(path))).collect();
        assert!(differ.is_empty(), "{what}: {differ:#?}");
        let verified = self.runs("verify");
        assert_eq!(verified.code, Some(0), "{what}: {verified:?}");
    }

    /// Panics unless every path of the config is as expected. Other paths may exist below the raced directory
    /// only: a path that an apply could not reach at its plan is not removed, and is foreign to later
    /// applies.
    pub(super) fn assert_applied(&self, side: usize) {
        let (is, wanted) = (verdict::nodes(self.tree.root()), &self.sides[side]);
        let raced = self.case.directory.trim_start_matches('/');
        let excused = |path: &str| {
            path.starts_with(raced)
                || path.contains("flameholder/originals")
                || path == "etc/flameholder/generation"
        };
        let remembers =
            |path: &str| path.starts_with("etc/flameholder") || path == "var/lib/flameholder/active";
        let lost = wanted.iter().filter(|(path, node)| is.get(*path) != Some(*node) && !remembers(path));
        let more = is.keys().filter(|path| !wanted.contains_key(*path) && !excused(path));
        let unlike: Vec<_> = lost.map(|(path, _)| path).chain(more).collect();
        assert!(unlike.is_empty(), "{:?}, side {side}: {unlike:?}", self.case);
        let verified = self.runs("verify");
        assert_eq!(verified.code, Some(0), "{verified:?}");
    }
}
