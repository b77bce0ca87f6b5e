//! The agent on a plain tree that its own config touches, and warnings of a plan.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testbed::model::applied_tree::apply;
use testbed::model::document::{file, machine_config, with_files};
use testbed::model::run::flameholder;
use testbed::model::tree::Tree;

fn document(folder: &Path, document: &Value) -> PathBuf {
    let path = folder.join("desired.json");
    fs::write(&path, document.to_string()).unwrap();
    path
}

#[test]
fn drop_in_of_the_installed_daemon_leaves_it_enabled() {
    const UNIT: &str = "/etc/systemd/system/flameholder-daemon.service";
    testbed::preconditions::require_root();
    let (tree, folder) = (Tree::new(), tempfile::tempdir().unwrap());
    let install = b"[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";
    tree.file(UNIT, 0o644, (0, 0), install);
    tree.directory("/etc/systemd/system-preset");
    tree.file("/etc/systemd/system-preset/00-none.preset", 0o644, (0, 0), b"disable *\n");
    let link = "/etc/systemd/system/multi-user.target.wants/flameholder-daemon.service";
    tree.directory("/etc/systemd/system/multi-user.target.wants");
    tree.link(link, UNIT);
    let drop_in = json!({"name": "flameholder-daemon.service",
        "dropins": [{"name": "10-site.conf", "contents": "[Service]\nMemoryMax=1G\n"}]});
    for units in [json!([drop_in]), json!([])] {
        let ignition = json!({"ignition": {"version": "3.5.0"}, "systemd": {"units": units}});
        let desired = document(folder.path(), &machine_config("rendered-daemon", &ignition));
        let outcome = apply(tree.root(), &desired);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        let is_there = tree.at(&format!("{UNIT}.d/10-site.conf")).exists();
        assert_eq!(is_there, units != json!([]), "{outcome:?}");
        assert!(tree.at(link).is_symlink(), "the daemon stays enabled: {units}");
    }
}

#[test]
fn plan_warns_of_paths_in_run() {
    let folder = tempfile::tempdir().unwrap();
    let config = with_files("rendered-run", &[file("/etc/x", "1"), file("/run/x", "1")]);
    let desired = document(folder.path(), &config);
    let plan = |output: &str| {
        let root = Tree::new();
        let line: [&Path; 7] = [
            "plan".as_ref(),
            "-o".as_ref(),
            output.as_ref(),
            "--root".as_ref(),
            root.root(),
            "--desired".as_ref(),
            &desired,
        ];
        let outcome = flameholder(line);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        outcome.stdout
    };
    let warnings = &serde_json::from_str::<Value>(&plan("json")).unwrap()["warnings"];
    let text = plan("text");
    let [warning] = warnings.as_array().unwrap().as_slice() else { panic!("one warning: {warnings}") };
    let warning = warning.as_str().unwrap();
    assert!(warning.starts_with("/run/x: ") && warning.contains("does not outlive a boot"), "{warning}");
    assert!(text.contains("  warnings          1\n") && text.contains(warning), "{text}");
}
