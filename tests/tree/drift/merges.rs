//! Drift policy `merge`: local changes of a file are kept, and merged with those of an update.

use std::fs;

use serde_json::{Value, json};
use testbed::model::document::{file, with_files};
use testbed::model::run::Outcome;
use testbed::model::snapshot;

use crate::drift::host::{Host, many_sided};

const PATH: &str = "/etc/chrony.conf";
const POLICY: &str = "[[drift.path]]\npath = \"/etc/chrony.conf\"\npolicy = \"merge\"\n";
const RECORDED: &str = "server a\ndriftfile d\nlogdir l\n";

fn config(text: &str) -> Value {
    with_files("rendered-chrony", &[file(PATH, text)])
}

/// Tree with a config that has the file, and the policy `merge` for it.
fn host() -> Host {
    let host = Host::new();
    host.apply(&config(RECORDED));
    host.settings("10.toml", POLICY);
    host
}

/// Outcome of a command with this file content as desired config.
fn run(host: &Host, verb: &str, text: &str, more: &[&str]) -> Outcome {
    host.run_with(verb, &config(text), more)
}

fn json_of(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome:?}"))
}

#[test]
fn local_change_is_no_drift_and_is_merged_by_an_update() {
    let host = host();
    host.put(PATH, "server a\ndriftfile d\nlogdir l\nallow 10.0.0.0/8\n");
    let verified = host.verify(&[]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
    assert!(verified.stdout.contains("local changes, which the next update keeps: 1 drifted path\n  PATH              DIFFERS  WAS       IS\n  /etc/chrony.conf  content"));
    // The same config again changes nothing.
    let before = host.snapshot();
    assert_eq!(run(&host, "plan", RECORDED, &["--exit-code"]).code, Some(0));
    assert_eq!(run(&host, "apply", RECORDED, &[]).code, Some(0));
    assert_eq!(snapshot::changes(&before, &host.snapshot()), Vec::<String>::new());

    let desired = "server b\ndriftfile d\nlogdir l\n";
    let plan = run(&host, "plan", desired, &[]);
    assert!(
        plan.stdout
            .contains("local changes     1 kept, as the drift policy `merge` says\n    /etc/chrony.conf\n"),
        "{plan:?}"
    );
    let document = json_of(&run(&host, "plan", desired, &["-o", "json"]));
    assert_eq!(document["merges"], json!([{"path": PATH, "conflict": null}]));
    assert_eq!((&document["drift"], &document["restores"]), (&json!([]), &json!([])));
    let applied = run(&host, "apply", desired, &[]);
    assert_eq!(applied.code, Some(0), "{applied:?}");
    assert!(
        applied
            .stdout
            .contains("local changes kept, as the drift policy `merge` says, 1:\n  /etc/chrony.conf\n")
    );
    let merged = "server b\ndriftfile d\nlogdir l\nallow 10.0.0.0/8\n";
    assert_eq!(host.text(PATH), merged);
    assert_eq!(host.verify(&[]).code, Some(0));
    // The next merge starts from the newer config.
    assert_eq!(run(&host, "apply", "server c\ndriftfile d\nlogdir l\n", &[]).code, Some(0));
    assert_eq!(host.text(PATH), "server c\ndriftfile d\nlogdir l\nallow 10.0.0.0/8\n");
    // Without the policy, the change is drift again.
    host.settings("10.toml", "");
    assert_eq!(host.verify(&[]).code, Some(2));
}

#[test]
fn contradicting_changes_are_an_obstacle_until_one_of_them_gives_way() {
    let host = host();
    host.put(PATH, "server local\ndriftfile d\nlogdir l\n");
    let desired = "server b\ndriftfile d\nlogdir l\n";
    let before = host.snapshot();
    let refused = run(&host, "apply", desired, &[]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    for part in [
        "the configuration cannot be applied over local changes",
        "the local changes of /etc/chrony.conf cannot be merged with the desired config: both change the same lines",
        "change the file so that both fit, or have it replaced: by `flameholder apply` with the drift policy `report`",
    ] {
        assert!(refused.stderr.contains(part), "{part}: {refused:?}");
    }
    assert!(!refused.stderr.contains("server"), "contents stay inside: {refused:?}");
    assert_eq!(snapshot::changes(&before, &host.snapshot()), Vec::<String>::new());
    let plan = run(&host, "plan", desired, &["-o", "json"]);
    assert_eq!(plan.code, Some(1), "{plan:?}");
    assert!(json_of(&plan)["merges"][0]["conflict"].as_str().unwrap().contains("same lines"), "{plan:?}");
    // The operator takes the desired line.
    host.put(PATH, "server b\ndriftfile d\nlogdir l\nallow x\n");
    assert_eq!(run(&host, "apply", desired, &[]).code, Some(0));
    assert_eq!(host.text(PATH), "server b\ndriftfile d\nlogdir l\nallow x\n");

    host.put(PATH, "server local\n");
    host.settings("10.toml", "");
    assert_eq!(run(&host, "apply", "server c\n", &[]).code, Some(0));
    assert_eq!(host.text(PATH), "server c\n");
    assert_eq!(host.kept_versions(), ["server local\n"]);
}

#[test]
fn only_the_content_of_a_text_may_differ() {
    let host = host();
    host.mode(PATH, 0o600);
    assert_eq!(host.kinds(), [(PATH.to_owned(), "mode".to_owned())]);
    assert_eq!(host.verify(&[]).code, Some(2));
    // Other contents hide no other mode. An apply mends the mode and keeps the content.
    host.put(PATH, "server a\nmine\n");
    host.mode(PATH, 0o600);
    let verified = host.verify(&[]);
    assert_eq!(verified.code, Some(2), "{verified:?}");
    assert!(verified.stdout.contains("/etc/chrony.conf  mode     0644  0600  merge\n"), "{verified:?}");
    assert!(
        verified.stdout.contains(
            "keeps: 1 drifted path\n  PATH              DIFFERS  WAS       IS\n  /etc/chrony.conf  content"
        ),
        "{verified:?}"
    );
    assert_eq!(run(&host, "apply", RECORDED, &[]).code, Some(0));
    assert_eq!(host.text(PATH), "server a\nmine\n");
    host.remove(PATH);
    assert_eq!(host.verify(&[]).code, Some(2));
    host.put(PATH, "");
    fs::write(host.at(PATH), b"\xff\xfe").unwrap();
    let refused = run(&host, "apply", "server b\n", &[]);
    assert!(refused.stderr.contains("the file is no text in UTF-8"), "{refused:?}");
    // A config without the file contradicts each change of it. Without the policy, it brings the earlier file back, and
    // the local version is kept.
    let without = with_files("rendered-none", &[file("/etc/z", "z")]);
    let refused = host.run_with("apply", &without, &[]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("the desired config has no such file any more"), "{refused:?}");
    host.settings("10.toml", "");
    assert_eq!(host.run_with("apply", &without, &[]).code, Some(0));
    assert_eq!(host.text(PATH), "pool vendor.example iburst\n");
    assert_eq!(fs::read(host.at("/var/lib/flameholder/undone").join(host.kept_name())).unwrap(), b"\xff\xfe");
}

#[test]
fn changes_are_kept_only_where_the_policy_holds_after_the_update() {
    const FRAGMENT: &str = "/etc/flameholder/config.d/30-drift.toml";
    let host = Host::new();
    let with_policy = |text: &str| with_files("rendered-chrony", &[file(PATH, text), file(FRAGMENT, POLICY)]);
    host.apply(&with_policy(RECORDED));
    host.put(PATH, "server a\ndriftfile d\nlogdir l\nallow x\n");
    assert_eq!(host.verify(&[]).code, Some(0));
    let desired = "server b\ndriftfile d\nlogdir l\n";
    let before = host.snapshot();
    let refused = run(&host, "apply", desired, &[]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("is not `merge` after the update"), "{refused:?}");
    assert_eq!(snapshot::changes(&before, &host.snapshot()), Vec::<String>::new());
    host.apply(&with_policy(desired));
    assert_eq!(host.text(PATH), "server b\ndriftfile d\nlogdir l\nallow x\n");
    // Settings that cannot be read, and that the update mends, lose no change.
    host.put(FRAGMENT, "[drift\n");
    let desired = "server c\ndriftfile d\nlogdir l\n";
    host.apply(&with_policy(desired));
    assert_eq!(host.text(PATH), "server c\ndriftfile d\nlogdir l\nallow x\n");
    // A policy in /run is gone after a reboot. An equal file needs no merge.
    host.put("/run/flameholder/config.d/30-drift.toml", POLICY);
    let refused = run(&host, "apply", RECORDED, &[]);
    assert!(refused.stderr.contains("fragments in /run last until a reboot"), "{refused:?}");
    host.put(PATH, RECORDED);
    assert_eq!(run(&host, "apply", RECORDED, &[]).code, Some(0));
    assert_eq!(host.text(PATH), RECORDED);
}

#[test]
fn large_files_units_and_settings_are_not_merged() {
    const FRAGMENT: &str = "/etc/flameholder/config.d/30-more.toml";
    const UNIT: &str = "/etc/systemd/system/own.service";
    let host = host();
    host.settings("10.toml", "[drift]\ndefault = \"merge\"\n");
    host.put(PATH, &"x\n".repeat(3 << 20));
    assert_eq!(host.verify(&[]).code, Some(0));
    let refused = run(&host, "apply", "server b\n", &[]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("more than 4194304 bytes"), "{refused:?}");
    host.put(PATH, RECORDED);

    let mut config = many_sided();
    let files = config["spec"]["config"]["storage"]["files"].as_array_mut().unwrap();
    files.push(file(FRAGMENT, "[reboot]\n"));
    host.apply(&config);
    for (path, text) in [(FRAGMENT, "[reboot]\n[image]\n"), (UNIT, "[Service]\nExecStart=/bin/false\n")] {
        let kept = host.text(path);
        host.put(path, text);
        assert_eq!(host.verify(&[]).code, Some(2), "{path}");
        host.put(path, &kept);
        assert_eq!(host.verify(&[]).code, Some(0), "{path}");
        let fragment = format!("[[drift.path]]\npath = \"{path}\"\npolicy = \"merge\"\n");
        host.settings("20.toml", &fragment);
        let refused = host.verify(&[]);
        assert_eq!(refused.code, Some(78), "{refused:?}");
        assert!(refused.stderr.contains(&format!("{path}: the policy `merge` is not for")), "{refused:?}");
        host.settings("20.toml", "");
    }
}

#[test]
fn repair_leaves_merged_files_alone() {
    let host = host();
    host.settings("10.toml", &format!("[drift]\ndefault = \"repair\"\n{POLICY}"));
    host.put(PATH, "server a\nmine\n");
    let document = host.document(&["--repair"]);
    assert_eq!(document["repaired"], json!([]));
    assert_eq!(document["drift"][0]["counts"], false);
    assert_eq!(host.text(PATH), "server a\nmine\n");
}

#[test]
fn rotated_ca_of_the_cluster_is_no_local_change() {
    const CA: &str = "/etc/kubernetes/kubelet-ca.crt";
    let host = Host::new();
    host.settings("10.toml", "[drift]\ndefault = \"merge\"\n");
    let applies = |text: &str| {
        let config = with_files("rendered-ca", &[file(CA, text)]);
        let outcome = host.run_with("apply", &config, &["--profile", "mcd"]);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    };
    host.apply(&with_files("rendered-ca", &[file(CA, "one\n")]));
    applies("one\n");
    host.put(CA, "rotated\n");
    applies("one\n");
    assert_eq!(host.text(CA), "rotated\n");
    applies("two\n");
    assert_eq!(host.text(CA), "two\n");
}

#[test]
fn policy_for_paths_outside_etc_is_refused() {
    let host = host();
    host.settings("20.toml", "[[drift.path]]\npath = \"/var/lib/x\"\npolicy = \"merge\"\n");
    let refused = host.verify(&[]);
    assert_eq!(refused.code, Some(78), "{refused:?}");
    let expected = "20.toml:2:8: /var/lib/x: the policy `merge` is for paths below /etc";
    assert!(refused.stderr.contains(expected), "{refused:?}");
}
