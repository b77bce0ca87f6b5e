//! Irreconcilable targets: planned with every reason, and never applied.

use std::fs;

use serde_json::{Value, json};
use testbed::model::applied_tree::{AppliedTree, apply, outcome_complaints};
use testbed::model::document::{file, machine_config, with_files};
use testbed::model::run::flameholder;

#[test]
fn irreconcilable_target_is_planned_with_every_reason() {
    let ignition = |more: Value| {
        let mut ignition = json!({"ignition": {"version": "3.5.0"}});
        ignition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        machine_config("rendered-bad", &ignition)
    };
    let mut fips = ignition(json!({}));
    fips["spec"]["fips"] = json!(true);
    let raid = json!({"name": "md", "level": "raid1", "devices": ["/dev/a", "/dev/b"]});
    let mount = json!({"device": "/dev/vdb", "format": "ext4", "path": "/var/data"});
    let core = |more: Value| json!({"passwd": {"users": [more]}});
    let cases = [
        ("spec.config.passwd.groups", ignition(json!({"passwd": {"groups": [{"name": "g"}]}}))),
        (
            "spec.config.passwd.users",
            ignition(core(json!({"name": "other", "sshAuthorizedKeys": ["ssh-rsa A"]}))),
        ),
        ("spec.config.passwd.users", ignition(core(json!({"name": "core"})))),
        (
            "spec.config.passwd.users",
            ignition(core(json!({"name": "core", "sshAuthorizedKeys": ["ssh-rsa A"], "shell": "/bin/zsh"}))),
        ),
        ("spec.config.kernelArguments", ignition(json!({"kernelArguments": {"shouldExist": ["quiet"]}}))),
        ("spec.config.storage.disks", ignition(json!({"storage": {"disks": [{"device": "/dev/vdb"}]}}))),
        ("spec.config.storage.filesystems", ignition(json!({"storage": {"filesystems": [mount]}}))),
        ("spec.config.storage.raid", ignition(json!({"storage": {"raid": [raid]}}))),
        ("spec.fips", fips),
    ];
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| folder.path().join(name);
    fs::write(path("current.json"), text(&with_files("rendered-good", &[]))).expect("a document");
    let mut complaints = Vec::new();
    for (field, document) in cases {
        fs::write(path("desired.json"), text(&document)).expect("a document");
        let pair = ["--current".into(), path("current.json"), "--desired".into(), path("desired.json")];
        let line = ["plan".into(), "-o".into(), "json".into()].into_iter().chain(pair);
        let outcome = flameholder(line.map(std::path::PathBuf::into_os_string));
        let plan: Value = serde_json::from_str(&outcome.stdout).unwrap_or_default();
        let reasons = plan["irreconcilable"].as_array().cloned().unwrap_or_default();
        let named = |entry: &Value| {
            entry["field"].as_str().is_some_and(|name| name.starts_with(field)) && entry["reason"].is_string()
        };
        if outcome.code != Some(1) || !reasons.iter().any(named) {
            complaints.push(format!("{field}: {outcome:?}"));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn irreconcilable_target_is_not_applied() {
    testbed::preconditions::require_root();
    let host = AppliedTree::new();
    let path = host.documents.path().join("desired.json");
    let groups = json!({"ignition": {"version": "3.5.0"}, "passwd": {"groups": [{"name": "g"}]}});
    fs::write(&path, text(&machine_config("rendered-bad", &groups))).expect("a document");
    let mut complaints =
        outcome_complaints(&apply(host.tree.root(), &path), 1, &["spec.config.passwd.groups"]);
    complaints.extend(host.unexpected_changes());
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

fn text(document: &Value) -> String {
    document.to_string()
}

#[test]
fn plan_status_and_verify_change_nothing() {
    let settled = AppliedTree::new();
    let other = settled.documents.path().join("other.json");
    fs::write(&other, text(&with_files("rendered-other", &[]))).expect("a document");
    let (root, other) = (settled.tree.root().as_os_str(), other.as_os_str());
    let lines: [&[&std::ffi::OsStr]; 4] = [
        &["plan".as_ref(), "--root".as_ref(), root, "--desired".as_ref(), other],
        &[
            "plan".as_ref(),
            "-o".as_ref(),
            "json".as_ref(),
            "--root".as_ref(),
            root,
            "--desired".as_ref(),
            other,
        ],
        &["status".as_ref(), "--root".as_ref(), root],
        &["verify".as_ref(), "--root".as_ref(), root],
    ];
    for line in lines {
        let outcome = flameholder(line);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }
    assert_eq!(settled.unexpected_changes(), Vec::<String>::new());
}

#[test]
fn node_disruption_policy_determines_the_actions() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| folder.path().join(name);
    let changed = file("/etc/example.d/x.conf", "data:,x");
    fs::write(at("current.json"), text(&with_files("rendered-a", &[]))).expect("a document");
    fs::write(at("desired.json"), text(&with_files("rendered-b", &[changed]))).expect("a document");
    let reload = json!([{"type": "Drain"}, {"type": "Reload", "reload": {"serviceName": "crio.service"}}]);
    let policy = json!({"kind": "MachineConfiguration", "spec": {"nodeDisruptionPolicy": {
        "files": [{"path": "/etc/example.d", "actions": reload}]}}});
    fs::write(at("policy.json"), policy.to_string()).expect("a document");
    let plan = |more: &[&std::ffi::OsStr]| {
        let (current, desired) = (at("current.json"), at("desired.json"));
        let line: [&std::ffi::OsStr; 7] = [
            "plan".as_ref(),
            "-o".as_ref(),
            "json".as_ref(),
            "--current".as_ref(),
            current.as_os_str(),
            "--desired".as_ref(),
            desired.as_os_str(),
        ];
        let outcome = flameholder(line.into_iter().chain(more.iter().copied()));
        serde_json::from_str::<Value>(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome:?}"))
    };
    let kinds = |plan: &Value| -> Vec<String> {
        let actions = plan["actions"].as_array().cloned().unwrap_or_default();
        actions.iter().map(|action| action["type"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(kinds(&plan(&[])), ["Reboot"]);
    assert_eq!(kinds(&plan(&["--first-boot".as_ref()])), ["Reboot"]);
    let judged = plan(&["--policy".as_ref(), at("policy.json").as_os_str()]);
    assert_eq!(kinds(&judged), ["Drain", "Reload"]);
    assert_eq!((&judged["drain"], &judged["rebootRequired"]), (&json!(true), &json!(false)));
}
