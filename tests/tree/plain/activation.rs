//! Activation on a tree whose `/etc` belongs to another generation than its `/var`, as after a boot of
//! another deployment.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use testbed::model::applied_tree::apply;
use testbed::model::document::{file, with_files};
use testbed::model::run::{Outcome, flameholder};
use testbed::model::snapshot;
use testbed::model::tree::Tree;

fn run(verb: &str, root: &Path) -> Outcome {
    flameholder([verb.as_ref(), "--root".as_ref(), root.as_os_str()])
}

/// Tree to which several configs were applied, and the `/etc` after each.
struct Generations {
    tree: Tree,
    beside: tempfile::TempDir,
}

impl Generations {
    fn new(names: &[&str]) -> Self {
        let generations = Self { tree: Tree::new(), beside: tempfile::tempdir().unwrap() };
        for name in names {
            generations.apply(name);
            let copied =
                Command::new("cp").arg("-a").arg(generations.etc()).arg(generations.kept(name)).status();
            assert!(copied.unwrap().success());
        }
        generations
    }

    fn apply(&self, name: &str) {
        let own = format!("/usr/local/bin/only-{name}");
        let files =
            [file("/etc/managed.conf", name), file("/var/usrlocal/bin/by-hand", name), file(&own, name)];
        let mut config = with_files(name, &files);
        let core = json!({"name": "core", "sshAuthorizedKeys": [format!("ssh-rsa AAAA{name}")]});
        config["spec"]["config"]["passwd"] = json!({"users": [core]});
        let desired = self.beside.path().join(format!("{name}.json"));
        fs::write(&desired, config.to_string()).unwrap();
        let outcome = apply(self.tree.root(), &desired);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }

    fn etc(&self) -> std::path::PathBuf {
        self.tree.at("etc")
    }

    fn kept(&self, name: &str) -> std::path::PathBuf {
        self.beside.path().join(format!("etc-{name}"))
    }

    /// Give the tree the `/etc` of a generation, as booting its deployment does.
    fn boot(&self, name: &str) {
        fs::remove_dir_all(self.etc()).unwrap();
        let copied = Command::new("cp").arg("-a").arg(self.kept(name)).arg(self.etc()).status();
        assert!(copied.unwrap().success());
    }

    fn assert_whole(&self, name: &str) {
        let text = |path: &str| fs::read_to_string(self.tree.at(path)).unwrap();
        assert_eq!(text("var/usrlocal/bin/by-hand"), name);
        assert_eq!(text(&format!("usr/local/bin/only-{name}")), name);
        assert_eq!(fs::read_dir(self.tree.at("var/usrlocal/bin")).unwrap().count(), 2);
        assert_eq!(text("var/home/core/.ssh/authorized_keys.d/ignition"), format!("ssh-rsa AAAA{name}\n"));
        let verified = run("verify", self.tree.root());
        assert_eq!(verified.code, Some(0), "{verified:?}");
    }
}

#[test]
fn activation_brings_var_to_the_generation_in_etc() {
    let host = Generations::new(&["a", "b"]);
    host.assert_whole("b");
    let settled = snapshot::take(host.tree.root());
    assert_eq!(run("activate", host.tree.root()).code, Some(0));
    assert_eq!(snapshot::changes(&settled, &snapshot::take(host.tree.root())), [""; 0]);
    for name in ["a", "b", "a"] {
        host.boot(name);
        assert_eq!(run("verify", host.tree.root()).code, Some(2), "/var has another generation than /etc");
        let activated = run("activate", host.tree.root());
        assert_eq!(activated.code, Some(0), "{activated:?}");
        host.assert_whole(name);
    }
}

#[test]
fn apply_starts_from_the_active_generation_not_from_etc() {
    let host = Generations::new(&["a", "b"]);
    host.boot("a");
    host.apply("c");
    host.assert_whole("c");
    let empty = host.beside.path().join("empty.json");
    fs::write(&empty, with_files("empty", &[]).to_string()).unwrap();
    assert_eq!(apply(host.tree.root(), &empty).code, Some(0));
    let text = fs::read_to_string(host.tree.at("var/usrlocal/bin/by-hand")).unwrap();
    assert_eq!(text, "#!/bin/sh\n", "the pre-image from before the first generation is restored");
    assert_eq!(fs::read_dir(host.tree.at("var/usrlocal/bin")).unwrap().count(), 1);
}

#[test]
fn activation_without_a_generation_fails() {
    let tree = Tree::new();
    let outcome = run("activate", tree.root());
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.stderr.contains("no configuration is applied at"), "{outcome:?}");
}
