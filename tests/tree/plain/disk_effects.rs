//! What a plan says about the disk, and what `apply` then does to it: paths that are so already, local files that are
//! replaced, drift that is undone.

use serde_json::{Value, json};
use testbed::model::document::file;
use testbed::model::run::{Outcome, flameholder};

use crate::plain::hostile::{Host, files};

/// Run a command with the config on the host's tree.
fn run(host: &Host, verb: &str, config: &Value, more: &[&str]) -> Outcome {
    let (root, desired) = (host.0.root().as_os_str().to_owned(), host.written(config));
    let line =
        [verb.as_ref(), "--root".as_ref(), root.as_os_str(), "--desired".as_ref(), desired.as_os_str()];
    flameholder(line.into_iter().chain(more.iter().map(AsRef::as_ref)))
}

fn config() -> Value {
    files(&[file("/etc/local", "ours\n"), file("/etc/new", "ours\n"), file("/etc/same", "ours\n")])
}

/// Host with a local file that differs from the config's, and one that is equal.
fn host() -> Host {
    let host = Host::new();
    host.put("/etc/local", "local\n");
    host.put("/etc/same", "ours\n");
    host
}

#[test]
fn first_plan_compares_the_disk_with_the_config() {
    let host = host();
    let text = run(&host, "plan", &config(), &[]).stdout;
    for line in [
        "  files             1 added, 1 changed, 1 already so\n",
        "    + /etc/new    0644, 5 bytes\n",
        "    ~ /etc/local  0644, 5 bytes; replaces a local file, which is kept",
        "    = /etc/same   0644, 5 bytes\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let json: Value = serde_json::from_str(&run(&host, "plan", &config(), &["-o", "json"]).stdout).unwrap();
    let effects: Vec<&Value> =
        json["changes"]["files"].as_array().unwrap().iter().map(|item| &item["onDisk"]).collect();
    assert_eq!(effects, [&json!("replacesLocal"), &json!("changed"), &json!("unchanged")]);
}

#[test]
fn plain_tree_is_promised_no_reboot() {
    let host = host();
    let text = run(&host, "plan", &config(), &[]).stdout;
    assert!(text.contains("nothing is drained, restarted or rebooted; on a running host:\n"), "{text}");
    let json: Value = serde_json::from_str(&run(&host, "plan", &config(), &["-o", "json"]).stdout).unwrap();
    assert_eq!(json["hypothetical"], true);
}

#[test]
fn exit_code_of_a_plan_tells_whether_apply_changes_the_disk() {
    let host = host();
    let plan = || run(&host, "plan", &config(), &["--exit-code"]);
    assert_eq!(plan().code, Some(2));
    host.applies(&config());
    assert_eq!(plan().code, Some(0), "{:?}", plan());
    host.put("/etc/new", "edited\n");
    let drifted = plan();
    assert_eq!(drifted.code, Some(2));
    assert!(
        drifted.stdout.contains(
            "  drift             1 undone by `apply`\n    ~ /etc/new  has other content (expected 5 bytes, found 7 bytes)\n"
        ),
        "{drifted:?}"
    );
    let json: Value = serde_json::from_str(&run(&host, "plan", &config(), &["-o", "json"]).stdout).unwrap();
    let difference = json!({"expected": "5 bytes", "found": "7 bytes"});
    assert_eq!(json["restores"], json!([{"path": "/etc/new", "kind": "content", "difference": difference}]));
}

#[test]
fn apply_names_the_drift_that_it_undoes_and_keeps_the_local_version() {
    let host = host();
    host.applies(&config());
    host.put("/etc/new", "edited\n");
    host.put("/etc/local", "edited too\n");
    let mut other = config();
    other["metadata"]["name"] = json!("rendered-other");
    let applied = run(&host, "apply", &other, &[]);
    assert_eq!(applied.code, Some(0), "{applied:?}");
    assert!(applied.stdout.contains("local changes of 2 managed paths are undone:\n"), "{applied:?}");
    for (path, edited) in [("/etc/local", "edited too\n"), ("/etc/new", "edited\n")] {
        let line = applied.stdout.lines().find(|line| line.contains(&format!("  {path}  has other content")));
        let (_, kept) = line.unwrap().split_once("; the local version is kept as ").unwrap();
        assert_eq!((host.text(path), host.text(kept)), ("ours\n".to_owned(), edited.to_owned()));
    }
    let again = run(&host, "apply", &other, &[]);
    assert!(!again.stdout.contains("undone"), "{again:?}");
}
