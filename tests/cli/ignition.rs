//! `plan` and `apply` with an Ignition config in place of a MachineConfig.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testbed::model::document::{config_server_answer, file, machine_config, with_files};
use testbed::model::refused::assert_all_refused;
use testbed::model::run::{Outcome, flameholder};
use testbed::model::tree::Tree;

fn fixture(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/ignition/{version}.ign"))
}

fn on(tree: &Tree, verb: &str, options: &[&str], desired: &Path) -> Outcome {
    let root = tree.root().to_str().unwrap();
    let arguments = [verb, "--root", root, "--desired", desired.to_str().unwrap()];
    flameholder(arguments.iter().chain(options))
}

fn plan(tree: &Tree, desired: &Path) -> Value {
    let outcome = on(tree, "plan", &["-o", "json"], desired);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    serde_json::from_str(&outcome.stdout).unwrap()
}

fn written(directory: &tempfile::TempDir, name: &str, document: &Value) -> PathBuf {
    let path = directory.path().join(name);
    fs::write(&path, document.to_string()).unwrap();
    path
}

#[test]
fn ignition_config_of_each_version_is_applied_as_one() {
    testbed::preconditions::require_root();
    for version in ["2.2", "3.2", "3.4", "3.5"] {
        let tree = Tree::new();
        let planned = on(&tree, "plan", &[], &fixture(version));
        assert_eq!(planned.code, Some(0), "{planned:?}");
        assert!(planned.first_line().contains(" ignition-"), "{planned:?}");
        let note = format!("is an Ignition config (version {version}.0), not a MachineConfig");
        let applied = on(&tree, "apply", &[], &fixture(version));
        assert_eq!(applied.code, Some(0), "{applied:?}");
        for outcome in [&planned, &applied] {
            assert!(outcome.stderr.contains(&note), "{}", outcome.stderr);
        }
        let read = |path: &str| fs::read_to_string(tree.root().join(path)).unwrap();
        assert!(read("etc/chrony.conf").starts_with("pool 2.rhel.pool.ntp.org iburst\n"));
        assert!(read("etc/systemd/system/report-node.service").contains("/usr/local/bin/report-node"));
        assert!(read("var/home/core/.ssh/authorized_keys.d/ignition").contains("core@bastion"));
        // Applied again, and from its record, it is the same config.
        let same = on(&tree, "plan", &["--exit-code"], &fixture(version));
        assert_eq!(same.code, Some(0), "{same:?}");
        let verified = flameholder(["verify", "--root", tree.root().to_str().unwrap()]);
        assert_eq!(verified.code, Some(0), "{verified:?}");
    }
}

#[test]
fn sections_about_fetching_are_named_once() {
    let tree = Tree::new();
    let outcome = on(&tree, "plan", &[], &fixture("3.2"));
    let warnings: Vec<&str> = outcome.stderr.lines().filter(|line| line.starts_with("warning: ")).collect();
    assert_eq!(warnings.len(), 1, "{}", outcome.stderr);
    assert!(warnings[0].contains("spec.config.ignition.timeouts"), "{}", warnings[0]);
}

#[test]
fn kernel_arguments_are_part_of_the_plan() {
    let tree = Tree::new();
    let plan = on(&tree, "plan", &[], &fixture("3.4"));
    assert!(
        plan.stdout.contains("+ nosmt\n                    + systemd.unified_cgroup_hierarchy=1\n"),
        "{}",
        plan.stdout
    );
}

#[test]
fn answer_of_a_config_server_is_taken_as_on_the_first_boot() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = with_files("rendered-worker-0a1b", &[file("/etc/app.conf", "served")]);
    config["spec"]["kernelArguments"] = json!(["loglevel=6"]);
    let served = written(&directory, "answer.ign", &config_server_answer(&config, "rendered-worker-0a1b"));
    let tree = Tree::new();
    let outcome = on(&tree, "plan", &[], &served);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stderr.contains("its MachineConfig rendered-worker-0a1b is taken"), "{}", outcome.stderr);
    for path in ["/etc/kubernetes/kubeconfig", "/etc/machine-config-daemon/node-annotations.json"] {
        let named = format!("{path} is of use to Ignition only, and is not applied");
        assert!(outcome.stderr.contains(&named), "{}", outcome.stderr);
    }
    assert!(!outcome.stderr.contains("bootstrap-secret") && !outcome.stdout.contains("bootstrap-secret"));
    let same = written(&directory, "config.json", &config);
    assert_eq!(plan(&tree, &served), plan(&tree, &same));
}

#[test]
fn what_only_ignition_does_is_refused_by_name() {
    let ignition = |version: &str, rest: Value| {
        let mut document = json!({"ignition": {"version": version}});
        for (key, value) in rest.as_object().unwrap() {
            let target = document.as_object_mut().unwrap().entry(key).or_insert(json!({}));
            target.as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
        }
        document.to_string().into_bytes()
    };
    let remote =
        json!({"storage": {"files": [{"path": "/etc/x", "contents": {"source": "https://example.com/x"}}]}});
    let merge = json!({"ignition": {"config": {"merge": [{"source": "https://example.com/more.ign"}]}}});
    let replace = json!({"ignition": {"config": {"replace": {"source": "data:,%7B%7D"}}}});
    let append = json!({"ignition": {"config": {"append": [{"source": "https://example.com/more.ign"}]}}});
    let luks = json!({"storage": {"luks": [{"name": "root", "device": "/dev/disk/by-partlabel/root", "clevis": {"tpm2": true}}]}});
    let filesystem =
        json!({"storage": {"filesystems": [{"device": "/dev/vdb1", "path": "/var/data", "format": "xfs"}]}});
    let disk = json!({"storage": {"disks": [{"device": "/dev/vdb", "partitions": [{"label": "data"}]}]}});
    let raid = json!({"storage": {"raid": [{"name": "md0", "level": "raid1", "devices": ["/dev/vdb", "/dev/vdc"]}]}});
    let removed = json!({"kernelArguments": {"shouldNotExist": ["quiet"]}});
    let networkd = json!({"networkd": {"units": [{"name": "00-eth.network"}]}});
    let deep =
        [br#"{"ignition":{"version":"3.4.0"},"x":"#.as_slice(), &b"[".repeat(125), &b"]".repeat(125), b"}"]
            .concat();
    let kubernetes = machine_config("a", &json!({})).to_string().replace("MachineConfig", "ConfigMap");
    assert_all_refused(vec![
        (
            "remote contents",
            ignition("3.4.0", remote.clone()),
            &["storage.files[0].contents.source", "https"],
        ),
        ("remote contents of 2.2", ignition("2.2.0", remote), &["storage.files[0].contents.source", "https"]),
        (
            "other configs to merge",
            ignition("3.5.0", merge),
            &["spec.config.ignition.config.merge[0].source"],
        ),
        ("another config in its place", ignition("3.2.0", replace), &["spec.config.ignition.config.replace"]),
        (
            "other configs to append",
            ignition("2.2.0", append),
            &["spec.config.ignition.config.append[0].source"],
        ),
        (
            "encrypted volumes",
            ignition("3.4.0", luks),
            &["spec.config.storage.luks", "reinstall the machine"],
        ),
        ("file systems", ignition("3.4.0", filesystem.clone()), &["spec.config.storage.filesystems"]),
        ("file systems of 2.2", ignition("2.2.0", filesystem), &["spec.config.storage.filesystems"]),
        ("disks", ignition("3.5.0", disk.clone()), &["spec.config.storage.disks"]),
        ("disks of 2.2", ignition("2.2.0", disk), &["spec.config.storage.disks"]),
        ("raid", ignition("3.6.0", raid), &["spec.config.storage.raid"]),
        (
            "kernel arguments to remove",
            ignition("3.4.0", removed),
            &["spec.config.kernelArguments.shouldNotExist"],
        ),
        ("networkd units", ignition("2.2.0", networkd), &["spec.config.networkd.units"]),
        ("an unknown version", ignition("3.7.0", json!({})), &["spec.config.ignition.version", "3.7.0"]),
        (
            "a version that is none",
            br#"{"ignition": {"version": 3}}"#.to_vec(),
            &["spec.config.ignition.version"],
        ),
        ("no version", br#"{"ignition": {}}"#.to_vec(), &["spec.config.ignition.version"]),
        ("nesting that its recorded form would exceed", deep, &["desired.json"]),
        ("another object of Kubernetes", kubernetes.into_bytes(), &["kind"]),
        (
            "an answer with parts of two configs",
            config_server_answer(&with_files("rendered-a", &[]), "rendered-b").to_string().into_bytes(),
            &["config rendered-b", "rendered-a"],
        ),
    ]);
}

#[test]
fn file_of_a_merged_config_comes_from_the_document_that_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let merged = json!({"ignition": {"version": "3.4.0"}, "storage": {"files": [{"path": "/etc/merged"}]}});
    let source = testbed::model::document::data_url(merged.to_string().as_bytes());
    let outer = json!({"ignition": {"version": "3.4.0", "config": {"merge": [{"source": source}]}}});
    let outer = written(&directory, "site.ign", &outer);
    let rendered = flameholder(["render", outer.to_str().unwrap()]);
    assert_eq!(rendered.code, Some(0), "{rendered:?}");
    let rendered: Value = serde_json::from_str(&rendered.stdout).unwrap();
    let documents = rendered["metadata"]["annotations"]["flameholder/documents"].as_str().unwrap();
    let documents: Value = serde_json::from_str(documents).unwrap();
    assert_eq!(documents, json!({"/etc/merged": ["site.ign"]}));
}

#[test]
fn users_besides_core_are_not_reconcilable() {
    let directory = tempfile::tempdir().unwrap();
    let users = json!({"ignition": {"version": "3.4.0"},
        "passwd": {"users": [{"name": "admin", "sshAuthorizedKeys": ["ssh-ed25519 AAAA admin"]}], "groups": [{"name": "ops"}]}});
    let path = written(&directory, "users.ign", &users);
    let outcome = on(&Tree::new(), "plan", &[], &path);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    for field in ["spec.config.passwd.users[0].name", "spec.config.passwd.groups"] {
        assert!(outcome.stdout.contains(field), "{}", outcome.stdout);
    }
}

#[test]
fn directory_is_read_as_by_the_daemon() {
    let (tree, directory) = (Tree::new(), tempfile::tempdir().unwrap());
    let empty = on(&tree, "plan", &[], directory.path());
    assert_eq!(empty.code, Some(78), "{empty:?}");
    assert!(empty.stderr.contains("holds no config: put a file there"), "{empty:?}");
    written(&directory, "10.json", &with_files("10", &[file("/etc/a.conf", "a")]));
    written(&directory, "20.json", &with_files("20", &[file("/etc/b.conf", "b")]));
    fs::write(directory.path().join("notes.txt"), "no config").unwrap();
    let planned = plan(&tree, directory.path());
    assert!(planned["desired"].as_str().unwrap().starts_with("rendered-local-"), "{planned}");
    let spelled = PathBuf::from(format!("dir:{}", directory.path().display()));
    assert_eq!(plan(&tree, &spelled)["desired"], planned["desired"]);
    let rendered = flameholder(["render", "--check", directory.path().to_str().unwrap()]);
    assert!(rendered.stdout.starts_with("2 configs in 2 files: no problems"), "{rendered:?}");
    let applied = on(&tree, "apply", &[], directory.path());
    assert_eq!(applied.code, Some(0), "{applied:?}");
    assert_eq!(fs::read_to_string(tree.root().join("etc/b.conf")).unwrap(), "b");
    written(&directory, "30.json", &json!({"kind": "Pod"}));
    let refused = on(&tree, "plan", &[], directory.path());
    assert_eq!(refused.code, Some(78), "{refused:?}");
    assert!(refused.stderr.contains("30.json"), "{refused:?}");
}
