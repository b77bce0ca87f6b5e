//! `verify --repair` and `verify --diff` on a booted host.

use serde_json::{Value, json};
use testbed::booted::config::full_config;
use testbed::booted::host::{Host, confirmed_host};

const SETTINGS: &str = "flameholder/config.d/10-drift.toml";

fn verify(host: &Host, options: &[&str]) -> (Option<i32>, Value) {
    let outcome = host.run(["flameholder", "verify", "-o", "json"].iter().chain(options));
    let document =
        serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
    (outcome.code, document)
}

#[test]
fn drift_of_a_booted_host_is_repaired_without_a_reboot() {
    let host = confirmed_host("one");
    host.write_etc(SETTINGS, "[[drift.path]]\npath = \"/etc/app\"\npolicy = \"repair\"\n");
    host.write_etc("app/a.conf", "another");
    host.write_etc("systemd/system/app-one.service", "[Service]\nExecStart=/bin/false\n");
    let generation = host.status()["deployments"][0]["generation"].clone();
    let (code, document) = verify(&host, &["--repair"]);
    assert_eq!(code, Some(2));
    let difference = json!({"expected": "3 bytes", "found": "7 bytes"});
    assert_eq!(
        document["repaired"],
        json!([{"path": "/etc/app/a.conf", "kind": "content", "difference": difference}])
    );
    // The default policy only reports.
    let [unit] = document["drift"].as_array().unwrap().as_slice() else { panic!("{document}") };
    assert_eq!(unit["path"], "/etc/systemd/system/app-one.service");
    assert_eq!(host.read_etc("app/a.conf").as_deref(), Some("one"));
    assert_eq!(host.status()["deployments"][0]["generation"], generation);
    assert!(!host.is_staged());
    // Without a bus, systemd cannot read the unit again, which is no reason to leave it as it is.
    host.write_etc(SETTINGS, "[drift]\ndefault = \"repair\"\n");
    let repaired = host.run(["flameholder", "verify", "--repair"]);
    assert_eq!(repaired.code, Some(0), "{repaired:?}");
    assert!(repaired.stderr.contains("systemd cannot be reached over D-Bus"), "{repaired:?}");
    assert!(repaired.stderr.contains("run `systemctl daemon-reload`"), "{repaired:?}");
    assert!(host.read_etc("systemd/system/app-one.service").unwrap().contains("/bin/true"));
}

#[test]
fn contents_are_shown_on_request_only() {
    let host = confirmed_host("one");
    host.write_etc("app/one.conf", "hunter2\n");
    let shown = |options: &[&str]| host.run(["flameholder", "verify"].iter().chain(options));
    let summary = shown(&["--diff"]);
    assert_eq!(summary.code, Some(2), "{summary:?}");
    assert!(summary.stdout.contains("/etc/app/one.conf  3 → 8 bytes, lines +1 -1\n"), "{summary:?}");
    for options in [&["--diff"][..], &[], &["-o", "json"]] {
        let outcome = shown(options);
        assert!(!outcome.stdout.contains("hunter2") && !outcome.stderr.contains("hunter2"), "{outcome:?}");
    }
    let contents = shown(&["--diff", "--show-contents=yes"]);
    assert!(contents.stdout.contains("-one\n") && contents.stdout.contains("+hunter2\n"), "{contents:?}");
    let refused = shown(&["--diff", "-o", "json"]);
    assert_eq!(refused.code, Some(64), "{refused:?}");
    // What another program removed has no contents to compare.
    host.write_etc("app/one.conf", "one");
    std::fs::remove_file(host.etc("app/a.conf")).unwrap();
    assert!(shown(&["--diff"]).stdout.ends_with("no contents differ\n"));
    host.update(&host.config(full_config("two").json()), None);
    host.assert_no_drift();
}
