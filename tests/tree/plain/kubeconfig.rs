//! Mode of the kubelet's bootstrap kubeconfig, which MCD makes private in every update.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;
use testbed::model::document::{file, with_files};
use testbed::model::run::{Outcome, flameholder};
use testbed::model::tree::Tree;
use testbed::strace::stopped::StoppedRun;

const KUBECONFIG: &str = "/etc/kubernetes/kubeconfig";
const TEXT: &str = "apiVersion: v1\nkind: Config\n";
/// More calls than an apply of one file has.
const CALLS: usize = 40;

struct Host {
    tree: Tree,
    documents: TempDir,
}

impl Host {
    fn new() -> Self {
        testbed::preconditions::require_root();
        let host = Self { tree: Tree::new(), documents: tempfile::tempdir().unwrap() };
        host.tree.directory("/etc/kubernetes");
        fs::write(host.tree.at(KUBECONFIG), TEXT).unwrap();
        host.set_mode(0o644);
        host
    }

    fn set_mode(&self, mode: u32) {
        fs::set_permissions(host_path(&self.tree), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn mode(&self) -> u32 {
        fs::metadata(host_path(&self.tree)).unwrap().permissions().mode() & 0o7777
    }

    fn written(&self, config: &Value) -> PathBuf {
        let path = self.documents.path().join("desired.json");
        fs::write(&path, config.to_string()).unwrap();
        path
    }

    fn line<'a>(&'a self, verb: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        [&[verb, "--root", self.tree.root().to_str().unwrap()], more].concat()
    }

    fn apply(&self, config: &Value, profile: &str) -> Outcome {
        let desired = self.written(config);
        let more = ["--desired", desired.to_str().unwrap(), "--profile", profile];
        flameholder(self.line("apply", &more))
    }
}

fn host_path(tree: &Tree) -> PathBuf {
    tree.at(KUBECONFIG)
}

fn config(name: &str) -> Value {
    with_files(name, &[file("/etc/managed.conf", name)])
}

#[test]
fn kubeconfig_becomes_private_with_an_update_of_the_mcd_profile() {
    for (profile, before, after) in
        [("mcd", 0o644, 0o600), ("mcd", 0o400, 0o400), ("mcd", 0o600, 0o600), ("native", 0o644, 0o644)]
    {
        let host = Host::new();
        host.set_mode(before);
        let outcome = host.apply(&config("rendered-one"), profile);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        assert_eq!(host.mode(), after, "{profile} {before:o}");
        assert_eq!(fs::read_to_string(host.tree.at(KUBECONFIG)).unwrap(), TEXT);
    }
}

#[test]
fn kubeconfig_that_a_config_lists_has_its_mode() {
    let host = Host::new();
    let mut listed = file(KUBECONFIG, "listed");
    listed["mode"] = 0o640.into();
    let outcome = host.apply(&with_files("rendered-one", &[listed]), "mcd");
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(host.mode(), 0o640);
}

#[test]
fn undone_update_gives_the_kubeconfig_its_mode_back() {
    testbed::preconditions::require_strace();
    let host = Host::new();
    assert_eq!(host.apply(&config("rendered-one"), "mcd").code, Some(0));
    host.set_mode(0o644);
    let desired = host.written(&config("rendered-two"));
    let apply = host.line("apply", &["--desired", desired.to_str().unwrap(), "--profile", "mcd"]);
    let call = (1..CALLS).find(|number| {
        let stopped = StoppedRun::at(("renameat2", *number), &apply);
        let is_private = host.mode() == 0o600;
        stopped.kill();
        let outcome = flameholder(host.line("recover", &[]));
        assert_eq!(outcome.code, Some(0), "call {number}: {outcome:?}");
        assert_eq!(host.mode(), 0o644, "call {number}");
        is_private
    });
    assert!(call.is_some(), "the kubeconfig was private at no call");
}
