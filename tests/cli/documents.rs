//! Results of commands in each form: documents in JSON and YAML, explanations of a path and of refusals.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use flameholder::core::config::document;
use flameholder::host::Root;
use flameholder::host::fs::lock::HostLock;
use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::executables;
use testbed::model::document::{file, with_files};
use testbed::model::run::flameholder;
use testbed::model::tree::Tree;

/// Tree, and a folder with a config that brings two files.
fn tree_and_config() -> (Tree, TempDir, String) {
    let (tree, folder) = (Tree::new(), tempfile::tempdir().unwrap());
    let path = folder.path().join("config.json");
    let files = [file("/etc/a", "a"), file("/etc/b", "b")];
    fs::write(&path, with_files("rendered-one", &files).to_string()).unwrap();
    let path = path.display().to_string();
    (tree, folder, path)
}

#[test]
fn yaml_says_the_same_as_json() {
    let (tree, _folder, config) = tree_and_config();
    let root = tree.root().to_str().unwrap();
    for arguments in [
        &["plan", "--root", root, "--desired", &config][..],
        &["status", "--root", root],
        &["history", "--root", root],
        &["version"],
        &["render", &config],
        // A failure.
        &["plan", "--root", root, "--desired", "/does/not/exist"],
    ] {
        let json = flameholder(arguments.iter().chain(&["-o", "json"]));
        let yaml = flameholder(arguments.iter().chain(&["-o", "yaml"]));
        assert_eq!(json.code, yaml.code, "{arguments:?}");
        assert!(yaml.stdout.starts_with("---\n"), "{arguments:?}: {yaml:?}");
        let read = document::parse(yaml.stdout.as_bytes()).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&json.stdout).unwrap(), read, "{arguments:?}");
    }
}

#[test]
fn yaml_with_characters_that_steer_a_terminal_escapes_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    let mut config = with_files("rendered-one", &[]);
    config["spec"]["kernelArguments"] = json!(["a=\u{202e}b"]);
    fs::write(&path, config.to_string()).unwrap();
    let rendered = flameholder(["render", "-o", "yaml", path.to_str().unwrap()]);
    assert!(rendered.stdout.contains("\\u202e") && !rendered.stdout.contains('\u{202e}'), "{rendered:?}");
    let read = document::parse(rendered.stdout.as_bytes()).unwrap();
    assert_eq!(read["spec"]["kernelArguments"], json!(["a=\u{202e}b"]));
}

#[test]
fn change_is_a_document_of_its_outcome() {
    testbed::preconditions::require_root();
    let (tree, _folder, config) = tree_and_config();
    let root = tree.root().to_str().unwrap();
    fs::create_dir_all(tree.at("/etc")).unwrap();
    let apply = ["apply", "--root", root, "--desired", &config, "-o", "json"];
    let changed = flameholder(apply);
    let applied: Value = serde_json::from_str(&changed.stdout).unwrap();
    assert_eq!(
        (&applied["result"], &applied["config"], &applied["reboot"]),
        (&json!("applied"), &json!("rendered-one"), &json!("none")),
        "{applied:#}"
    );
    assert!(applied["seconds"].is_number() && applied["generation"].is_string(), "{applied:#}");
    let message = applied["message"].as_str().unwrap();
    assert!(message.starts_with("applied rendered-one as generation "), "{message}");
    let again: Value = serde_json::from_str(&flameholder(apply).stdout).unwrap();
    assert_eq!((&again["result"], &again["generation"]), (&json!("unchanged"), &applied["generation"]));
    let recovered = flameholder(["recover", "--root", root, "-o", "json"]);
    let recovered: Value = serde_json::from_str(&recovered.stdout).unwrap();
    assert_eq!(recovered["message"], "no change was interrupted\n");
    // On a host that was not booted through OSTree.
    for command in ["unstage", "rollback", "retry", "adopt", "release"] {
        let refused = flameholder([command, "-o", "json"]);
        let document: Value = serde_json::from_str(&refused.stdout).unwrap();
        assert_eq!(
            (refused.code, &document["error"]["code"]),
            (Some(64), &json!(64)),
            "{command}: {refused:?}"
        );
    }
}

#[test]
fn schema_of_each_document_is_printed() {
    for (name, schema) in flameholder::report::schema::all() {
        let printed = flameholder(["schema", name]);
        assert_eq!(serde_json::from_str::<Value>(&printed.stdout).unwrap(), schema, "{name}");
    }
    for command in ["apply", "unstage", "rollback", "retry", "recover", "adopt", "release"] {
        assert_eq!(flameholder(["schema", command]).stdout, flameholder(["schema", "change"]).stdout);
    }
    let list = flameholder(["schema"]);
    let names: Vec<&str> = list.stdout.lines().filter_map(|line| line.split(' ').next()).collect();
    let known: Vec<&str> = flameholder::report::schema::all().iter().map(|(name, _)| *name).collect();
    assert_eq!(names, known);
}

#[test]
fn refusals_name_place_line_and_nearest_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("worker.yaml");
    let config = "\
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata: {name: worker}
spec:
  config:
    ignition: {version: 3.4.0}
    storage:
      files:
      - path: etc/sysctl.d/80.conf
        contents: {source: 'data:,a'}
      - path: /etc/b
        mode: 99999
        contents: {source: 'data:;base64,secret!'}
";
    fs::write(&path, config).unwrap();
    let refused = |arguments: &[&str]| {
        let outcome = flameholder(arguments.iter().copied().chain([path.to_str().unwrap()]));
        assert_eq!(outcome.code, Some(78), "{outcome:?}");
        outcome.stderr.replace(&format!("{}/", folder.path().display()), "")
    };
    insta::assert_snapshot!("refusals_of_a_config", refused(&["plan", "--desired"]));
    insta::assert_snapshot!("refusals_of_a_part", refused(&["render", "--check"]));
    fs::write(&path, config.replace("spec:\n", "spec:\n  kernelArgumnets: [nosmt]\n")).unwrap();
    insta::assert_snapshot!("refusal_of_an_unknown_key", refused(&["render", "--check"]));
    fs::write(&path, config.replace("kind: MachineConfig", "kind: MachineConfigg")).unwrap();
    insta::assert_snapshot!("refusal_of_a_kind", refused(&["plan", "--desired"]));
}

#[test]
fn checked_parts_are_counted_and_the_merge_takes_a_name() {
    let (_tree, folder, config) = tree_and_config();
    let checked = flameholder(["render", "--check", &config]);
    let (begins, ends) = ("1 config in 1 file: no problems; merged into rendered-worker-", "\n");
    assert!(checked.stdout.starts_with(begins) && checked.stdout.ends_with(ends), "{checked:?}");
    let named = flameholder(["render", "--name", "rendered-mine", &config]);
    let document: Value = serde_json::from_str(&named.stdout).unwrap();
    assert_eq!(document["metadata"]["name"], "rendered-mine");
    let refused = flameholder(["render", "--name", "No Name", &config]);
    assert!(refused.code == Some(78) && refused.stderr.contains("metadata.name"), "{refused:?}");
    drop(folder);
}

#[test]
fn explanation_of_a_path_names_each_source_and_the_winner() {
    testbed::preconditions::require_root();
    let (tree, folder, config) = tree_and_config();
    let root = tree.root().to_str().unwrap();
    let applied = flameholder(["apply", "--root", root, "--desired", &config]);
    assert_eq!(applied.code, Some(0), "{applied:?}");
    fs::write(tree.at("/etc/a"), "local").unwrap();
    fs::create_dir_all(tree.at("/usr/etc")).unwrap();
    fs::write(tree.at("/usr/etc/a"), "image").unwrap();
    let next = folder.path().join("next.json");
    let mut desired = with_files("rendered-two", &[file("/etc/a", "two")]);
    desired["spec"]["config"]["systemd"] = json!({"units": [
        {"name": "a.service", "enabled": true, "dropins": [{"name": "10.conf", "contents": "[Unit]\n"}]}]});
    fs::write(&next, desired.to_string()).unwrap();
    let explained = |path: &str| {
        let next = next.to_str().unwrap();
        let outcome = flameholder(["plan", "--root", root, "--desired", next, "--explain", path]);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
        outcome.stdout
    };
    let paths = ["/etc/a", "/etc/b", "/etc/systemd/system/a.service.d/10.conf", "/etc/nothing"];
    insta::assert_snapshot!(paths.map(explained).join("\n"));
    let relative = flameholder(["plan", "--root", root, "--desired", &config, "--explain", "etc/a"]);
    assert_eq!(relative.code, Some(64), "{relative:?}");
}

#[test]
fn command_waits_for_a_lock_if_asked_to() {
    testbed::preconditions::require_root();
    let (tree, _folder, config) = tree_and_config();
    let root = Root::open(tree.root()).unwrap();
    let lock = HostLock::take(&root).unwrap();
    let apply = ["apply", "--root", tree.root().to_str().unwrap(), "--desired", &config];
    assert_eq!(flameholder(apply).code, Some(75));
    assert_eq!(flameholder(apply.into_iter().chain(["--wait-lock=0s"])).code, Some(75));
    let mut command = Command::new(executables::flameholder());
    command.args(apply).arg("--wait-lock").stdout(Stdio::null()).stderr(Stdio::piped());
    let mut waiting = command.spawn().unwrap();
    let mut lines = BufReader::new(waiting.stderr.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    let pid = std::process::id().to_string();
    assert!(line.starts_with("note: waiting: ") && line.contains(&pid), "{line}");
    drop(lock);
    assert!(waiting.wait().unwrap().success());
    assert!(tree.at("/etc/a").exists());
}
